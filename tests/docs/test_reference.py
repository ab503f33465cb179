"""The documentation says what the code has: generated pages are current, nothing public is left out, links lead
somewhere."""

import inspect
import re
from pathlib import Path
from typing import get_overloads

import pytest

import penstock
from docs import generate
from docs.writers import modules_table, protocol_page
from docs.writers.invariants import INVARIANTS
from penstock.definitions.handles import DefinitionHandle
from penstock.domain import errors, event
from penstock.storage import migrations, statements
from tests.docs.markdown import ROOT, WRITTEN, anchors, links

REFERENCE = ROOT / "docs" / "reference"
GUIDE = ROOT / "docs" / "guide"


def test_the_generated_pages_are_up_to_date() -> None:
    outdated = [str(path.relative_to(ROOT)) for path in generate.stale()]

    assert outdated == [], "run `make docs`"


def test_every_public_name_has_its_place() -> None:
    page = (REFERENCE / "python.md").read_text()

    missing = [name for name in penstock.__all__ if f"\n## {name}\n" not in page and f"| [`{name}`]" not in page]

    assert missing == []


def test_every_error_has_its_heading_and_can_be_imported() -> None:
    members = {name: each for name, each in vars(errors).items() if inspect.isclass(each)}
    classes = [name for name, each in members.items() if issubclass(each, errors.PenstockError)]
    headings = _headings(REFERENCE / "errors.md")

    assert [name for name in classes if name not in headings] == []
    assert [name for name in classes if name not in penstock.__all__] == []


def test_every_event_kind_has_its_row() -> None:
    page = (REFERENCE / "events.md").read_text()

    assert [kind for kind in event.TYPES if f"\n| `{kind}` |" not in page] == []


@pytest.mark.parametrize(
    "function", [get_overloads(penstock.Penstock.job)[1], DefinitionHandle.options], ids=["job", "options"]
)
def test_every_option_has_its_row_in_the_guide(function: object) -> None:
    page = (GUIDE / "enqueue.md").read_text()
    options = [name for name in inspect.signature(function).parameters if name not in ("self", "key")]  # type: ignore[arg-type]

    assert [name for name in options if f"\n| `{name}` |" not in page] == []


def test_every_statement_has_a_sentence_and_a_row() -> None:
    page = (REFERENCE / "protocol.md").read_text()
    entries = statements.read("postgres")

    assert [name for name, entry in entries.items() if not entry.sentence] == []
    assert [name for name in entries if f"\n| `{name}` |" not in page] == []


def test_the_statements_that_the_protocol_speaks_of_exist() -> None:
    page = (REFERENCE / "protocol.md").read_text()
    prose = page[page.index("## Creating") : page.index("### What follows from an ending")]

    named = set(re.findall(r"`([a-z_]+)`", prose))

    assert named - statements.read("postgres").keys() == set()


def test_the_constraints_that_the_invariants_name_exist() -> None:
    named = {name for _, _, names in INVARIANTS for name in names}
    schemas = {dialect: migrations.script(dialect) for dialect in protocol_page.DIALECTS}

    assert {
        (dialect, name)
        for dialect, text in schemas.items()
        for name in named
        if not re.search(rf"(CONSTRAINT|INDEX) {name}\b", text)
    } == set()


def test_every_module_has_its_layer_and_its_row() -> None:
    folder = ROOT / "src" / "penstock"
    modules = {each.stem for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()}

    assert {name for layer in modules_table.layers() for name in layer} == modules - {"__init__", "__main__"}


def test_every_verb_of_make_has_its_row() -> None:
    verbs = re.findall(r"^([a-z]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    rows = re.findall(r"^\| `make ([a-z]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)

    assert sorted(rows) == sorted({*verbs} - {"help"})


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if not _leads_somewhere(page, link)]

    assert broken == []


def _leads_somewhere(page: Path, link: str) -> bool:
    if re.match(r"https?://", link):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


def _headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE))
