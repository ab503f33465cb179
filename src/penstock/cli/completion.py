"""`penstock completion`: commands and flags by the Tab key."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from penstock.cli.output import write


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish.")],
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="Put it where the shell looks for it.")] = False,
) -> None:
    """Print the script that completes commands and flags in a shell.

    The script is static: a Tab starts no Python. For bash:
    penstock completion bash > ~/.local/share/bash-completion/completions/penstock
    """
    from penstock.cli import app

    if install:
        write(str(app.install_completion(shell=shell, add_to_startup=False)))
    else:
        write(app.generate_completion(shell=shell))
