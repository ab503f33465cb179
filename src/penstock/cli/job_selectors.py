"""Which job is meant: its id, the end of it, `@last` or `@last-failed`."""

from __future__ import annotations

import re

from penstock.cli.connection import Connection
from penstock.cli.exit_codes import Refused
from penstock.cli.formatting import short
from penstock.domain.ids import is_id

_END = re.compile(r"[0-9a-f-]{4,35}")
_PAGE = 200
_PAGES = 10
_SURE = 8
"""So many characters are not shared by chance."""


def job_id(api: Connection, name: str) -> str:
    """The id of the job that is meant."""
    lower = name.lower().removeprefix("…")
    if is_id(lower):
        return lower
    if name == "@last":
        return _newest(api, name)
    if name == "@last-failed":
        return _newest(api, name, status="failed", sort="-finishedAt")
    if not _END.fullmatch(lower):
        raise Refused(
            "invalid_request", f"{name[:80]!r} names no job.", "Give its id, the last 8 characters of it, or @last."
        )
    return _ending(api, lower)


def job_ids(api: Connection, names: tuple[str, ...]) -> list[str]:
    """The ids of several jobs, each once."""
    return list(dict.fromkeys(job_id(api, each) for each in names))


def _newest(api: Connection, name: str, **query: str) -> str:
    found = api.get("/v1/jobs", limit=1, **query).data["jobs"]
    if not found:
        raise Refused("not_found", f"There is no job that {name} could mean.")
    newest: str = found[0]["jobId"]
    return newest


def _ending(api: Connection, end: str) -> str:
    fitting: list[str] = []
    cursor: str | None = None
    looked = 0
    for _ in range(_PAGES):
        page = api.get("/v1/jobs", limit=_PAGE, cursor=cursor).data
        looked += len(page["jobs"])
        fitting += [each["jobId"] for each in page["jobs"] if each["jobId"].endswith(end)]
        cursor = page["nextCursor"]
        if cursor is None or (fitting and len(end) >= _SURE):
            break
    if not fitting:
        raise Refused(
            "not_found", f"None of the newest {looked:,} jobs has an id that ends with {end!r}.", "Give the whole id."
        )
    if len(fitting) > 1:
        shown = ", ".join(short(each) for each in fitting[:5])
        raise Refused("not_found", f"{len(fitting)} jobs have ids that end with {end!r}: {shown}.", "Give more of it.")
    return fitting[0]
