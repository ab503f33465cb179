"""Display of followed jobs: live bars on a terminal, a line for each change elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.cli.formatting import clock, count, mark, short, span, style, took
from penstock.cli.job_follower import FollowedJob
from penstock.cli.jobs import error_text, log_line
from penstock.cli.output import Output, one_line
from penstock.domain.secrets.policy import neutralise
from penstock.domain.states import TERMINAL

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


_LONGEST_RESULT = 400
_BAR = 30
_PHASE_STATUS = {
    "pending": "queued",
    "running": "running",
    "completed": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
}


class LineView:
    """Prints a line for every change."""

    def __init__(self, say: Callable[[str], None], several: bool) -> None:
        self._say = say
        self._several = several
        self._seen: set[str] = set()

    def happened(self, job: FollowedJob, event: Mapping[str, Any]) -> None:
        self._say(f"{clock(event['at'])} {self._name(job)}{_sentence(event)}")

    def logged(self, job: FollowedJob, line: Mapping[str, Any]) -> None:
        self._say(f"{clock(line['at'])} {self._name(job)}{log_line(line).partition(' ')[2]}")

    def draw(self, jobs: Sequence[FollowedJob]) -> None:
        for job in jobs:
            if job.ended and job.id not in self._seen:
                self._seen.add(job.id)
                self._say(f"{clock(job.detail['finishedAt'])} {self._name(job)}{ending(job.detail)}")

    def _name(self, job: FollowedJob) -> str:
        return f"{short(job.id)} " if self._several else ""


class ScreenView(AbstractContextManager["ScreenView"]):
    """Shows phases as moving bars, with log lines above them."""

    def __init__(self, out: Output) -> None:
        self._console: Console = out.shown
        self._ascii = out.ascii_only
        from rich.live import Live

        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> ScreenView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def happened(self, job: FollowedJob, event: Mapping[str, Any]) -> None:
        if event["type"] in ("job.retrying", "job.lost", "job.snoozed", "job.review_needed"):
            self._console.print(_text(f"{clock(event['at'])} {_sentence(event)}", "yellow"))

    def logged(self, job: FollowedJob, line: Mapping[str, Any]) -> None:
        colour = {"warning": "yellow", "error": "red", "debug": "bright_black"}.get(line["level"], "")
        self._console.print(_text(log_line(line), colour))

    def draw(self, jobs: Sequence[FollowedJob]) -> None:
        from rich.console import Group

        self._live.update(Group(*(part for job in jobs for part in self._parts(job))), refresh=True)

    def _parts(self, job: FollowedJob) -> list[RenderableType]:
        detail = job.detail
        tries = f"attempt {detail['attempts']}/{detail['maxAttempts']}" if detail["attempts"] else ""
        status = detail["status"]
        head = _text(f"{detail['definitionKey']} …{short(job.id)}  ", "bold")
        head.append(f"{mark(status, self._ascii)} {status} {took(detail)}".rstrip(), style=style(status))
        head.append(neutralise("".join(f"  {each}" for each in (tries, _worker(detail)) if each)))
        parts: list[RenderableType] = [head, self._bars(job)]
        if job.ended:
            parts.append(_text(ending(detail, self._ascii), style(detail["outcome"] or status)))
        return parts

    def _bars(self, job: FollowedJob) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 1))
        begun = {each["name"]: each for each in job.detail["phases"]}
        names = list(dict.fromkeys([*job.planned, *begun]))
        for name in names:
            phase = begun.get(name)
            if phase is None or phase["status"] == "pending":
                table.add_row(_text(f" {mark('queued', self._ascii)}"), _text(name, "bright_black"))
                continue
            status = _PHASE_STATUS[phase["status"]]
            percent, message = _progress(job, phase, names)
            table.add_row(
                _text(f" {mark(status, self._ascii)}", style(status)),
                _text(name),
                _text(_phase_took(phase)),
                ProgressBar(
                    total=100, completed=percent, width=_BAR, style="bright_black", complete_style=style(status),
                    finished_style="green",
                ),
                _text(f"{percent:.0f}%"),
                _text(message or ""),
            )  # fmt: skip
        return table


def ending(job: Mapping[str, Any], ascii_only: bool = False) -> str:
    """Return how a job has ended, in one line."""
    outcome = job["outcome"] or job["status"]
    text, length, attempts = f"{mark(outcome, ascii_only)} {outcome}", took(job), count(job["attempts"], "attempt")
    if length and job["attempts"] > 1:
        text += f" ({attempts}, the last took {length})"
    else:
        text += (f" in {length}" if length else "") + f" ({attempts})"
    if outcome == "succeeded":
        result = one_line(job["result"])
        cut = f"{result[:_LONGEST_RESULT]}…" if len(result) > _LONGEST_RESULT else result
        return text if job["result"] is None else f"{text}  result {cut}"
    return f"{text}  {error_text(job['error'])}" if job["error"] else text


def _sentence(event: Mapping[str, Any]) -> str:
    """Return an event in a few words."""
    kind = event["type"].removeprefix("job.")
    data = event["data"] if isinstance(event["data"], dict) else {}
    job = event["job"]
    if kind == "progress" and job is not None:
        percent = data.get("percent", job["progress"])
        phase = data.get("phase") or data.get("stage") or job["currentPhase"]
        words = ["phase" if phase else "", phase or "", "" if percent is None else f"{percent:.0f}%"]
        return " ".join(each for each in [*words, data.get("message") or job["progressMessage"] or ""] if each) or kind
    details = ", ".join(f"{name} {_brief(value)}" for name, value in data.items() if value not in (None, "", [], {}))
    return f"{kind}  {details}" if details else kind


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else one_line(value)
    return f"{text[:120]}…" if len(text) > 120 else text


def _worker(job: Mapping[str, Any]) -> str:
    running = job["workerId"] and job["status"] not in TERMINAL
    return f"worker {short(job['workerId'])}" if running else ""


def _progress(job: FollowedJob, phase: Mapping[str, Any], names: Sequence[str]) -> tuple[float, str | None]:
    """Return the progress of a phase; while it runs, from the job's progress."""
    percent: float = phase["progress"]
    message: str | None = phase["message"]
    detail = job.detail
    if phase["status"] == "running" and detail["currentPhase"] == phase.get("name") and detail["progress"] is not None:
        of_job = detail["progress"] * len(names) - 100 * names.index(phase["name"])
        return min(100.0, max(percent, of_job)), message or detail["progressMessage"]
    return percent, message


def _phase_took(phase: Mapping[str, Any]) -> str:
    if phase["startedAt"] is None:
        return ""
    end = datetime.now(UTC) if phase["finishedAt"] is None else datetime.fromisoformat(phase["finishedAt"])
    return span(max(0.0, (end - datetime.fromisoformat(phase["startedAt"])).total_seconds()))


def _text(text: str, colour: str = "") -> Text:
    from rich.text import Text

    return Text(neutralise(text), style=colour)
