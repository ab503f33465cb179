"""A real browser before a real server."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from penstock.http.dashboard import FOLDER
from tests.http.servers import ServerProcess, opened, serve
from tests.services import PostgresServer, unavailable
from tests.waiting import wait_until
from tests.worker.fleet import ROOT, Stage

STORES = ("sqlite", "postgres") if os.environ.get("PENSTOCK_SOAK") == "1" else ("sqlite",)
"""The pages speak to the API alone, which is shown on both stores every day; a soak shows them on both, too."""
APPLICATION = "tests.ui.application:app"
PATIENCE = 20_000
"""Milliseconds within which whatever is waited for has to be seen."""


# Not for the whole session: while it is there, its thread cannot run the event loops of other tests.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        unavailable("chromium is not installed (Debian: apt-get install chromium)")
    if not (FOLDER / "index.html").exists():
        unavailable("the dashboard is not built (make ui)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def postgres_18_database(postgres_18: PostgresServer) -> str:
    """One database for all tests; each has a schema to itself."""
    return postgres_18.create_database()


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


@pytest.fixture
def server(stage: Stage) -> ServerProcess:
    return serve(stage, target=APPLICATION)


@pytest.fixture(scope="module", params=STORES)
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of a file that look at nothing but their own jobs."""
    for stage in opened(request, tmp_path_factory.mktemp("shared"), request.param):
        yield serve(stage, target=APPLICATION)


class Window:
    """One browser of its own, whose pages are watched: errors and requests to elsewhere are kept."""

    def __init__(self, browser: Browser, home: str, forgiven: tuple[str, ...] = (), **options: Any) -> None:
        self._forgiven = forgiven
        self.home = home.rstrip("/") + "/"
        self.context = browser.new_context(viewport={"width": 1280, "height": 860}, **options)
        self.context.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []

    def open(self, path: str = "") -> Page:
        page = self.context.new_page()
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda asked: self._watch(asked.url))
        page.goto(self.home + path)
        page.wait_for_selector("h1")
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and not any(each in text for each in self._forgiven):
            self.complaints.append(text)

    def _watch(self, url: str) -> None:
        if not url.startswith((self.home, "blob:", "data:")):
            self.complaints.append(f"foreign request: {url}")


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Window]]:
    """Opens windows; at the end none of them may have had anything to complain about."""
    made: list[Window] = []

    def make(home: str, **options: Any) -> Window:
        made.append(Window(browser, home, **options))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
    assert [complaint for each in made for complaint in each.complaints] == []


class Allowance:
    """How many steps a job may make: a file that it reads before each of them."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.path = folder / "allowance"
        self.raise_to(steps)

    def raise_to(self, steps: int) -> None:
        written = self.path.with_suffix(".new")
        written.write_text(str(steps))
        written.replace(self.path)


def settled(page: Page) -> None:
    """Wait until a page has what it asked for and asks for nothing more."""
    page.wait_for_selector("h1")
    last = "Math.max(...performance.getEntriesByType('resource').map(each => each.responseEnd))"
    # Not with wait_for_function: the page's policy allows no eval.
    wait_until(
        lambda: page.evaluate(f"performance.now() - {last} > 400"), "the page has what it asked for", PATIENCE / 1000
    )


def answers(page: Page) -> list[tuple[str, float]]:
    """The requests that a page has made of the API, and the milliseconds until each was answered in full."""
    told = page.evaluate(
        """performance.getEntriesByType("resource").filter(each => each.name.includes("/v1/"))
            .map(each => [each.name.replace(location.origin, ""), each.responseEnd - each.requestStart])"""
    )
    return [(re.sub(r"(since|createdFrom)=[^&]*", r"\1", address), took) for address, took in told]


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with a page."""
    script = (ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js").read_text()
    # By the debugger: the page's own policy allows no script from elsewhere.
    page.context.new_cdp_session(page).send("Runtime.evaluate", {"expression": script})
    # The size of targets is part of WCAG 2.2 AA and not looked at by itself.
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]
