"""What the package imports, against what `pyproject.toml` declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

from tests.test_repository import ROOT, SOURCE

NOT_IMPORTED = {
    "httptools",  # uvicorn parses requests with it
    "tzdata",  # zoneinfo reads it where the system has no time zones
    "nats-py", "redis",  # for applications: penstock has no adapter for them
    "opentelemetry-api",  # looked up among the modules that the application has imported
    "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http",  # for applications that set a provider
}  # fmt: skip


def test_everything_that_is_imported_is_declared() -> None:
    owners = packages_distributions()

    missing = {
        f"{path}: {module}"
        for path, module in _imported()
        if not {_normal(each) for each in owners.get(module, [module])} & _declared()
    }

    assert missing == set()


def test_everything_that_is_declared_is_imported_or_has_a_reason() -> None:
    owners = packages_distributions()
    used = {_normal(each) for _, module in _imported() for each in owners.get(module, [module])}

    assert _declared() - used == NOT_IMPORTED


def test_every_declaration_has_a_lowest_version() -> None:
    assert [each for each in _requirements() if ">=" not in each] == []


def _imported() -> Iterator[tuple[str, str]]:
    """Each file with the first name of each module that it imports from elsewhere."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
                names = [node.module]
            for name in names:
                first = name.partition(".")[0]
                if first not in sys.stdlib_module_names and first != "penstock":
                    yield path.relative_to(ROOT).as_posix(), first


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]


def _declared() -> set[str]:
    names = [re.match(r"[\w.-]+", each) for each in _requirements()]
    return {_normal(each.group()) for each in names if each is not None}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
