"""Lists of jobs: filters, pages and counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

from penstock.domain.errors import InvalidInput
from penstock.domain.job import Job
from penstock.domain.states import Status

PAGE = 200
"""The number of jobs of each page that is requested."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list, a count or a bulk change includes; None: any."""

    job_id: tuple[str, ...] | None = None
    status: tuple[Status, ...] | None = None
    definition_key: str | None = None
    reference_type: str | None = None
    reference_id: str | None = None
    tag: str | None = None
    schedule_id: str | None = None
    created_from: int | None = None
    created_to: int | None = None
    fingerprint: str | None = None
    parent_id: str | None = None
    error: str | None = None
    """A text in the error; the case of ASCII letters is ignored."""
    params: tuple[tuple[str, str], ...] | None = None
    """Parameter names and values: a text as it is, anything else as JSON."""

    @property
    def searches(self) -> bool:
        """Whether errors or parameters are searched, which no index supports."""
        return self.error is not None or self.params is not None

    def __post_init__(self) -> None:
        if self.reference_id is not None and self.reference_type is None:
            raise InvalidInput("A filter by reference_id needs the reference_type as well.")
        if self.status is not None and not self.status:
            raise InvalidInput("A filter by status needs at least one status.")
        if self.params is not None and not self.params:
            raise InvalidInput("A filter by params needs at least one parameter.")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `next_cursor` continues after it, None: it is the last page."""

    jobs: list[Job]
    next_cursor: str | None
    searched: int | None = None
    """The number of jobs that a search examined; with a `next_cursor` there may be more."""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of matching jobs; `capped`: not all were examined, and there may be more."""

    value: int
    capped: bool


def every(ask: Callable[[str | None], Page]) -> Iterator[Job]:
    """Yield the jobs of all pages; `ask` returns the page after a cursor."""
    page = ask(None)
    yield from page.jobs
    while page.next_cursor is not None:
        page = ask(page.next_cursor)
        yield from page.jobs


async def aevery(ask: Callable[[str | None], Awaitable[Page]]) -> AsyncIterator[Job]:
    page = await ask(None)
    for job in page.jobs:
        yield job
    while page.next_cursor is not None:
        page = await ask(page.next_cursor)
        for job in page.jobs:
            yield job
