"""Every job of a list, page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from penstock.domain.job import Job, Page

PAGE = 200
"""So many jobs are asked for at a time."""


def every(ask: Callable[[str | None], Page]) -> Iterator[Job]:
    """The jobs of all pages; `ask` gives the page behind a cursor."""
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
