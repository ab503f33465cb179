"""Server-sent events as bytes, as EventSource of browsers reads them; independent of server and store."""

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
    """Return one message; `retry`: milliseconds after which a disconnected client reconnects.

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
    # A lone surrogate cannot be encoded.
    return "".join(f"{line}\n" for line in [*lines, ""]).encode(errors="replace")


def event_data(event: Event, job: str | None) -> str:
    """Return an event as JSON text, with its current job (also JSON text), or with the id of a deleted job."""
    gone = f'"{event.job_id}"' if job is None and event.job_id is not None else "null"
    return event_text(event, job=job or "null", deletedJobId=gone)


def event_message(event: Event, cursor: str, job: str | None) -> bytes:
    """Return an event as a message: its type, the cursor after it as the id, and `event_data`."""
    return message(event_data(event, job), event=event.type, id=cursor)
