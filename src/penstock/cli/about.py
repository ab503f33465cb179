"""`penstock version`: which version this is."""

from __future__ import annotations

import json
import platform
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import write
from penstock.domain import release


def version(
    *, as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document.")] = False
) -> None:
    """Say which version of penstock this is, and on what it runs."""
    own, python = release.version(), platform.python_version()
    if as_json:
        import apsw

        sqlite = apsw.sqlite_lib_version()
        write(json.dumps({"version": own, "python": python, "sqlite": sqlite, "platform": platform.platform()}))
    else:
        write(f"penstock {own} (Python {python})")
