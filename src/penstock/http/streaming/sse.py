"""Server-sent events as bytes: what a browser's EventSource reads. It stands alone, without a server or a store."""

from __future__ import annotations

import re

from penstock.domain.event import Event
from penstock.domain.job_json import event_text

MEDIA_TYPE = "text/event-stream; charset=utf-8"

_LINES = re.compile(r"\r\n|\r|\n")
_BREAKS = re.compile(r"[\r\n\x00]")


def message(
    data: str | None = None, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """One message; `retry` are the milliseconds after which a client that was cut off comes back.

    A line break in `event` or `id` would begin another field, so it becomes a space.
    """
    lines: list[str] = []
    if retry is not None:
        lines.append(f"retry: {retry}")
    if event is not None:
        lines.append(f"event: {_BREAKS.sub(' ', event)}")
    if id is not None:
        lines.append(f"id: {_BREAKS.sub(' ', id)}")
    if data is not None:
        lines += [f"data: {line}" for line in _LINES.split(data)]
    # Half of a pair of surrogates has no bytes of its own.
    return "".join(f"{line}\n" for line in [*lines, ""]).encode(errors="replace")


def event_data(event: Event, job: str | None) -> str:
    """An event as JSON text, with its job (JSON text as well) as it is now, or with the id of a job that is gone."""
    gone = f'"{event.job_id}"' if job is None and event.job_id is not None else "null"
    return event_text(event, job=job or "null", deletedJobId=gone)


def event_message(event: Event, cursor: str, job: str | None) -> bytes:
    """An event as a message: its kind, the cursor behind it as the id, and what `event_data` says."""
    return message(event_data(event, job), event=event.type, id=cursor)
