"""`penstock init`: create a project that runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.domain.errors import InvalidInput

_TOML = """\
# Settings of every command in this folder; options and the environment take precedence.
name = "{name}"
store = "sqlite:///jobs.db"
jobs = "jobs"

# [worker]
# slots = 4

# [web]
# port = 7367
"""

_HELLO = '''\
"""Says hello: a file in jobs/ is a job, and its name is the file's."""


def run(ctx, name: str = "world"):
    ctx.logger.info("greeting %s", name)
    return f"Hello {name}"
'''

_IMPORT_PRICES = '''\
"""Three phases; if one fails, the next attempt starts with that phase."""

import time

schedule = "*/15 * * * *"
backoff = 2


def fetch(ctx, shop: str = "example"):
    for percent in range(0, 101, 25):
        ctx.progress(percent, f"{percent} % of {shop}")
        time.sleep(0.1)
    return [19, 5, 12]


def check(ctx):
    if ctx.attempt == 1:
        raise ConnectionError("the shop does not answer; fetch is not repeated")
    return sorted(ctx.results["fetch"])


def save(ctx):
    return {"lowest": ctx.results["check"][0]}


phases = [fetch, check, save]
'''

_IGNORED = ("jobs.db*", "__pycache__/")


def init(
    folder: Annotated[Path, Parameter(help="The folder; this one by default.")] = Path("."),
    /,
) -> None:
    """Create a project that runs: penstock.toml, two job files, lines in .gitignore. Existing files are kept."""
    files = {
        "penstock.toml": _TOML.format(name=_name(folder)),
        "jobs/hello.py": _HELLO,
        "jobs/import_prices.py": _IMPORT_PRICES,
    }
    try:
        _write(folder, files)
        _ignore(folder / ".gitignore")
    except OSError as error:
        raise InvalidInput(f"{error.filename or folder} cannot be created: {error.strerror}.") from None
    go = "" if folder.absolute() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    print(f"next: {go}penstock dev")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            print(f"kept    {path}, which exists")
        else:
            print(f"created {path}")


def _ignore(path: Path) -> None:
    """Add the data files to .gitignore."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [each for each in _IGNORED if each not in before.splitlines()]
    if missing:
        start = "" if not before or before.endswith("\n") else "\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(start + "".join(f"{each}\n" for each in missing))
        print(f"added   {' and '.join(missing)} to {path}")


def _name(folder: Path) -> str:
    """Return a name for the project: its folder's, with characters that TOML allows."""
    kept = "".join(
        each if each.isascii() and (each.isalnum() or each in "-_.") else "-" for each in folder.absolute().name
    )
    return kept.strip("-.") or "project"
