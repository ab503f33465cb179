"""Rules about the tree itself that no linter knows."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.services import unavailable

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "penstock"

MOST_LINES = 500
SAYS_NOTHING = re.compile(r"(^|[/_])(utils?|common|helpers?|managers?|misc)(\.\w+$|/)")
# Written with [.] so that this file does not hold what it forbids.
REGISTRY_HOST = re.compile(r"pypi[.]org|pythonhosted[.]org|npmjs[.](org|com)|deb[.]debian[.]org|https?://\S+/simple\b")
MACHINE_PATH = re.compile(r"(?<![.\w])/(work|farm)/")
DRIVERS = {"apsw", "fastapi", "nats", "psycopg", "redis", "sqlite3", "starlette"}


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files git knows, by their paths from the root; a new file counts once it is added."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        unavailable("this is no git repository, so the tracked files are unknown")
    return [path for path in listing.split("\0") if path and (ROOT / path).is_file()]


def test_no_source_file_is_too_long() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in _sources("*.py", "*.sql")}

    assert {str(path): lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_every_file_name_says_something(tracked: list[str]) -> None:
    names = {*tracked, *(path.relative_to(ROOT).as_posix() for path in _sources("*.py", "*.sql"))}

    assert sorted(name for name in names if SAYS_NOTHING.search(name)) == []


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine(tracked: list[str]) -> None:
    found = [
        f"{path}: {match.group()}"
        for path in tracked
        for pattern in (REGISTRY_HOST, MACHINE_PATH)
        if (match := pattern.search((ROOT / path).read_text(errors="ignore")))
    ]

    assert found == []


def test_no_lock_file_holds_an_address() -> None:
    locks = [ROOT / "ui/package-lock.json", *(ROOT / "requirements").glob("*.txt")]

    assert [lock.name for lock in locks if "://" in lock.read_text()] == []


def test_importing_penstock_loads_no_driver() -> None:
    program = f"import sys, penstock; print(*sorted({DRIVERS} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []


def test_the_core_never_imports_urllib_request() -> None:
    importing = re.compile(r"^\s*(import|from) urllib\.request\b|^\s*from urllib import .*\brequest\b", re.M)

    offenders = [path for path in (SOURCE / "core").rglob("*.py") if importing.search(path.read_text())]

    assert offenders == []


def test_wheel_and_sdist_carry_the_sql_and_the_type_marker(tmp_path: Path) -> None:
    needed = {path.relative_to(ROOT / "src").as_posix() for path in _sources("*.py", "*.sql", "py.typed")}

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": "1767225600"},
    )

    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert needed - set(zipfile.ZipFile(wheel).namelist()) == set()
    with tarfile.open(sdist) as archive:
        assert needed - {name.partition("/src/")[2] for name in archive.getnames()} == set()


def _sources(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in SOURCE.rglob(pattern)]
