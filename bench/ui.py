"""`python -m bench ui`: how soon the dashboard's pages are there with a million jobs behind them."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.http.servers import ServerProcess, serve
from tests.ui.conftest import APPLICATION, answers, settled
from tests.ui.loaded import load
from tests.worker.fleet import Stage

JOBS = 1_000_000
PAGES = ("", "jobs", "jobs?status=failed", "errors", "definitions", "workers")


def run(rounds: int, scale: float) -> str:
    """For each page: when it stands there, and the slowest of the answers that it is made of."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("chromium is not installed (Debian: apt-get install chromium)")
    count = max(1, round(JOBS * scale))
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(f"sqlite:///{folder}/jobs.db", "penstock", Path(folder))
        try:
            serve(stage, target=APPLICATION).stop()
            load(stage.app, "echo", count)
            server = serve(stage, target=APPLICATION)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                lines = [_measured(browser, server, path, rounds) for path in PAGES]
                browser.close()
        finally:
            stage.close()
    head = f"{count:,} ended jobs on SQLite; milliseconds, medians of {rounds}."
    return "\n".join(
        [head, "", "| page | there after | slowest answer | which |", "| --- | ---: | ---: | --- |", *lines]
    )


def _measured(browser: Browser, server: ServerProcess, path: str, rounds: int) -> str:
    there: list[float] = []
    waits: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        there.append(_opened(page, f"{server.url}/{path}"))
        for asked, took in answers(page):
            waits[asked].append(took)
        context.close()
    slowest = max(waits, key=lambda asked: statistics.median(waits[asked]))
    took = statistics.median(waits[slowest])
    return f"| `/{path}` | {statistics.median(there):.0f} | {took:.0f} | `{slowest}` |"


def _opened(page: Page, url: str) -> float:
    begin = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("main h1")
    there = (time.perf_counter() - begin) * 1000
    settled(page)
    return there
