"""`penstock version` and `penstock completion`."""

from __future__ import annotations

import json
import platform
from typing import Annotated, Literal

from cyclopts import Parameter

from penstock.cli.output import write
from penstock.runtime import release


def version(
    *, as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document.")] = False
) -> None:
    """Print the version of penstock and Python."""
    own, python = release.version(), platform.python_version()
    if as_json:
        import apsw

        sqlite = apsw.sqlite_lib_version()
        write(json.dumps({"version": own, "python": python, "sqlite": sqlite, "platform": platform.platform()}))
    else:
        write(f"penstock {own} (Python {python})")


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish.")],
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="Install it for the shell.")] = False,
) -> None:
    """Print the script that completes commands and options in a shell.

    The script is static: it does not start Python. For bash:
    penstock completion bash > ~/.local/share/bash-completion/completions/penstock

    """
    from penstock.cli import app

    if install:
        write(str(app.install_completion(shell=shell, add_to_startup=False)))
    else:
        write(app.generate_completion(shell=shell))
