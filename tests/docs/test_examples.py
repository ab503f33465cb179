"""Every Python block of README and docs is run, and prints what it says it prints.

The blocks of a page make one program, in a folder of its own; those that need PostgreSQL make another one, in
which `localhost/shop` leads to a real database.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, WRITTEN, Block, announced, program, python_blocks
from tests.services import PostgresServer

PLACEHOLDER = "localhost/shop"
PAGES = [page for page in WRITTEN if "reference" not in page.parts]
BLOCKS = {page.relative_to(ROOT).as_posix(): python_blocks(page) for page in PAGES}


def _with(kind: str) -> list[str]:
    return [page for page, blocks in BLOCKS.items() if any(block.kind == kind for block in blocks)]


def test_every_block_is_of_a_kind_that_is_run() -> None:
    kinds = {block.kind for blocks in BLOCKS.values() for block in blocks}

    assert kinds == {"sqlite", "postgres"}


@pytest.mark.parametrize("page", _with("sqlite"))
def test_the_examples_of_a_page_work(page: str, tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS[page] if block.kind == "sqlite"]

    assert _printed(page, program(blocks), tmp_path) == announced(blocks)


@pytest.mark.parametrize("page", _with("postgres"))
def test_the_postgres_examples_of_a_page_work(page: str, postgres: PostgresServer, tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS[page] if block.kind == "postgres"]
    url = postgres.create_database()

    source = program(blocks).replace(PLACEHOLDER, url.partition("://")[2])
    printed = _printed(page, source, tmp_path)

    postgres.drop_database(url)
    assert printed == announced(blocks)


def test_the_lines_of_a_program_have_the_numbers_of_the_page() -> None:
    source = program([Block(3, "a = 1", "sqlite"), Block(7, "b = 2", "sqlite")])

    assert source.splitlines() == ["", "", "a = 1", "", "", "", "b = 2"]


def _printed(page: str, source: str, folder: Path) -> list[str]:
    script = folder / f"{page.replace('/', '_')}.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
    )
    assert done.returncode == 0, f"{page} fails (lines as on the page):\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout.splitlines()
