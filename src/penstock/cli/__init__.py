"""The command line, `penstock`. Modules of commands are imported when a command is called."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from cyclopts import App, CycloptsError, Group, Parameter

from penstock.domain.errors import PenstockError
from penstock.runtime.release import version


def _shown(default: object) -> object:
    """Hide defaults without information in the help."""
    return None if default in (False, ()) else default


app: App = App(
    name="penstock",
    help="Durable background jobs for Python.",
    version=version,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(show_default=_shown),
)
_RUN, _LOOK, _OPERATE = Group("Run", sort_key=1), Group("Jobs", sort_key=2), Group("Operate", sort_key=3)

app.command("penstock.cli.demo:demo", name="demo", group=_RUN, help="Run a server, a worker and sample jobs.")
app.command("penstock.cli.init:init", name="init", group=_RUN, help="Create a project that runs.")
app.command("penstock.cli.dev:dev", name="dev", group=_RUN, help="Serve and run jobs during development.")
app.command("penstock.cli.serve:serve", name="serve", group=_RUN, help="Serve the HTTP API and run jobs.")
app.command("penstock.cli.worker:worker", name="worker", group=_RUN, help="Claim jobs and run them.")
app.command("penstock.cli.worker:tick", name="tick", group=_RUN, help="Do the timed work once, for hosts with cron.")
app.command("penstock.cli.enqueue:enqueue", name="enqueue", group=_LOOK, help="Create a job.")
app.command("penstock.cli.jobs:app", name="jobs", group=_LOOK, help="List, follow and change jobs.")
app.command(
    "penstock.cli.definitions:app", name="definitions", group=_LOOK, help="Manage definitions and their limits."
)
app.command("penstock.cli.schedules:app", name="schedules", group=_LOOK, help="Manage schedules.")
app.command("penstock.cli.events:app", name="events", group=_LOOK, help="Show events.")
app.command("penstock.cli.monitoring:errors_app", name="errors", group=_LOOK, help="List failures, grouped by cause.")
app.command("penstock.cli.monitoring:status", name="status", group=_OPERATE, help="Summarise the system on one screen.")
app.command("penstock.cli.workers:app", name="workers", group=_OPERATE, help="List workers.")
app.command("penstock.cli.monitoring:alerts_app", name="alerts", group=_OPERATE, help="List alerts.")
app.command("penstock.cli.webhooks:app", name="webhooks", group=_OPERATE, help="Manage webhooks.")
app.command("penstock.cli.tokens:app", name="tokens", group=_OPERATE, help="Manage the tokens of the HTTP API.")
app.command(
    "penstock.cli.config:app", name="config", group=_OPERATE, help="Show settings, and change those of all workers."
)
app.command("penstock.cli.db:app", name="db", group=_OPERATE, help="Migrate, check, back up and move a store.")
app.command("penstock.cli.doctor:doctor", name="doctor", group=_OPERATE, help="Diagnose the store and this host.")
_ABOUT = "penstock.cli.version_and_completion"
app.command(f"{_ABOUT}:completion", name="completion", group=_OPERATE, help="Print or install shell completion.")
app.command(f"{_ABOUT}:version", name="version", group=_OPERATE, help="Print the version.")


def main() -> None:
    """Run the command; print an error as one line with a hint, and exit with its code."""
    code: int = 1
    try:
        _make_output_robust()
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; the interpreter must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run() -> int:
    as_json = "--json" in sys.argv[1:]
    try:
        result = app(exit_on_error=False, print_error=False, result_action="return_value")
    except (PenstockError, CycloptsError) as error:
        from penstock.cli import exit_codes, output

        if isinstance(error, CycloptsError):
            error = exit_codes.usage_error(error)
        output.print_error(error, as_json)
        return exit_codes.exit_of(error)
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0


def _make_output_robust() -> None:
    """Escape characters that a terminal cannot show, and flush every line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
