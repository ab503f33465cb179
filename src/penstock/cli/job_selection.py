"""Select jobs on the command line: by id, the end of an id, `@last`, `@last-failed`, or filters; and pages of lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from penstock.cli.connection import Connection
from penstock.cli.exit_codes import ApiError
from penstock.cli.formatting import moment, short
from penstock.domain.errors import InvalidInput
from penstock.domain.ids import is_id

_GROUP = Group("Which jobs", sort_key=50)
Limit = Annotated[int, Parameter(help="Number of entries, up to 500.")]
Cursor = Annotated[str | None, Parameter(help="Continue after an earlier page.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Filter:
    """Selects jobs that match all given filters."""

    status: Annotated[
        tuple[str, ...], Parameter(group=_GROUP, negative="", help="With this status; may be repeated or given as a,b.")
    ] = ()
    definition_key: Annotated[str | None, Parameter(group=_GROUP, help="Of the definition with this key.")] = None
    tag: Annotated[str | None, Parameter(group=_GROUP, help="With this tag.")] = None
    reference: Annotated[str | None, Parameter(group=_GROUP, help="About this object: TYPE or TYPE:ID.")] = None
    schedule_id: Annotated[str | None, Parameter(group=_GROUP, help="Created by the schedule with this key.")] = None
    created_from: Annotated[str | None, Parameter(group=_GROUP, help="Created since: 2h, 7d, or a time.")] = None
    created_to: Annotated[str | None, Parameter(group=_GROUP, help="Created before: 2h, 7d, or a time.")] = None
    fingerprint: Annotated[
        str | None, Parameter(group=_GROUP, help="With this fingerprint, from `penstock errors list`.")
    ] = None
    parent_id: Annotated[str | None, Parameter(group=_GROUP, help="Created by the job with this id.")] = None
    error: Annotated[
        str | None, Parameter(group=_GROUP, help="With this text in the error; searches the newest jobs.")
    ] = None
    param: Annotated[
        tuple[str, ...],
        Parameter(
            group=_GROUP, negative="",
            help="With this parameter: NAME=VALUE; searches the newest jobs. May be repeated.",
        ),
    ] = ()  # fmt: skip

    @property
    def searches(self) -> bool:
        """Whether errors or parameters are searched."""
        return self.error is not None or self.param != ()

    def fields(self) -> dict[str, Any]:
        """Return the filter as the API takes it."""
        kind, _, name = (self.reference or "").partition(":")
        if self.reference is not None and not kind:
            raise InvalidInput(f"{self.reference[:80]!r} is not a reference.", hint="Give TYPE or TYPE:ID.")
        data: dict[str, Any] = {
            "status": [part for each in self.status for part in each.split(",")],
            "definitionKey": self.definition_key,
            "tag": self.tag,
            "referenceType": kind or None,
            "referenceId": name or None,
            "scheduleId": self.schedule_id,
            "createdFrom": None if self.created_from is None else moment(self.created_from, past=True),
            "createdTo": None if self.created_to is None else moment(self.created_to, past=True),
            "fingerprint": self.fingerprint,
            "parentId": self.parent_id,
            "error": self.error,
            **self._params(),
        }
        return {name: value for name, value in data.items() if value not in (None, [])}

    def _params(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.param:
            name, separator, value = each.partition("=")
            if not name or not separator:
                raise InvalidInput(f"{each[:80]!r} is not a parameter with a value.", hint="Give --param NAME=VALUE.")
            if f"params.{name}" in found:
                raise InvalidInput(f"--param {name[:80]} is given more than once.", hint="Give it once.")
            found[f"params.{name}"] = value
        return found


NO_FILTER = Filter()


_END = re.compile(r"[0-9a-f-]{4,35}")
_PAGE = 200
_PAGES = 10
_SURE = 8
"""Number of characters that two ids do not share by chance."""


def job_id(api: Connection, name: str) -> str:
    """Return the id of the job that a name selects."""
    lower = name.lower().removeprefix("…")
    if is_id(lower):
        return lower
    if name == "@last":
        return _newest(api, name)
    if name == "@last-failed":
        return _newest(api, name, status="failed", sort="-finishedAt")
    if not _END.fullmatch(lower):
        raise ApiError(
            "invalid_request",
            f"{name[:80]!r} does not name a job.",
            "Give its id, the last 8 characters of it, or @last.",
        )
    return _ending(api, lower)


def job_ids(api: Connection, names: tuple[str, ...]) -> list[str]:
    """Return the ids of several jobs without duplicates."""
    return list(dict.fromkeys(job_id(api, each) for each in names))


def _newest(api: Connection, name: str, **query: str) -> str:
    found = api.get("/v1/jobs", limit=1, **query).data["jobs"]
    if not found:
        raise ApiError("not_found", f"There is no job for {name}.")
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
        raise ApiError(
            "not_found", f"None of the newest {looked:,} jobs has an id that ends with {end!r}.", "Give the whole id."
        )
    if len(fitting) > 1:
        shown = ", ".join(short(each) for each in fitting[:5])
        raise ApiError("not_found", f"{len(fitting)} jobs have ids that end with {end!r}: {shown}.", "Give more of it.")
    return fitting[0]
