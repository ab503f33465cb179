"""`penstock demo`: run a server, a worker and sample jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import Output
from penstock.cli.run_options import LogFormat, LogLevel, configure, new_loop
from penstock.runtime import processes

if TYPE_CHECKING:
    from penstock.demo.player import SceneResult


def demo(
    *,
    exit_when_done: Annotated[
        bool,
        Parameter(help="Run every scene to its end, print a table and exit; exit code 1 if one failed.", negative=""),
    ] = False,
    port: Annotated[int | None, Parameter(help="The port; 7367, or any free one if that is taken.")] = None,
    data: Annotated[
        Path | None, Parameter(help="Where to keep the data; ~/.local/state/penstock/demo by default.")
    ] = None,
    log_format: LogFormat = "console",
    log_level: LogLevel = "warning",
) -> int:
    """Run a server, a worker and jobs that show phases, retries, a review, a crash and a schedule, until Ctrl-C.

    The data is kept for the next run.

    """
    from penstock.demo.player import Demo

    processes.refuse_inspection()
    configure(log_format, log_level)
    output = Output()
    output.line("penstock demo")
    playing = Demo(data, port, say=_say)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        if not exit_when_done:
            runner.run(playing.stay())
            return 0
        ended = runner.run(playing.finish())
    _say("")
    output.table(
        ["JOB", "DEFINITION", "STATUS", "ATTEMPTS", "SECONDS", "WHAT IT SHOWS"],
        [_row(each, output) for each in ended],
        none="The demo was stopped before its end.",
    )
    wrong = [each.definition for each in ended if not each.as_expected]
    if wrong:
        output.note(f"Unexpected results: {', '.join(wrong)}.")
    return 1 if wrong or not ended else 0


def _row(ended: SceneResult, output: Output) -> list[str | tuple[str, str]]:
    job = ended.job
    if job is None:
        return ["-", ended.definition, "missing", "-", "-", ended.shows]
    took = "-"
    if job.finished_at is not None:
        took = f"{(job.finished_at - job.created_at).total_seconds():.1f}"
    return [job.id, ended.definition, output.status(job.status), str(job.attempts), took, ended.shows]


def _say(text: str) -> None:
    print(text, flush=True)
