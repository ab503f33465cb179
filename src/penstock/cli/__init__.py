"""The command line: `penstock`. Commands are imported when they are called."""

from __future__ import annotations

import sys

from cyclopts import App

from penstock.core.errors import PenstockError

app = App(name="penstock", help="Durable background jobs for Python.", version_flags=["--version"])
app.command("penstock.cli.worker:worker", name="worker")
app.command("penstock.cli.tick:tick", name="tick")


def main() -> None:
    """Run the command that was typed; an error of ours is one clear line and exit code 1."""
    try:
        app()
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
