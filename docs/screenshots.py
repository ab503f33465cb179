"""`make screenshots`: every page of the dashboard, light and dark, from the demo's jobs and an hour of history."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from penstock.demo import scenes
from tests.http.servers import ServerProcess, serve
from tests.ui.conftest import settled
from tests.ui.loaded import load
from tests.worker.fleet import Stage

IMAGES = Path(__file__).with_name("images")
TARGET = "penstock.demo.jobs:app"
MOST_BYTES = 150_000


def main() -> int:
    """Take all pictures again; one that is too large is an error."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("chromium is not installed (Debian: apt-get install chromium)", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(f"sqlite:///{folder}/penstock.db", "penstock", Path(folder))
        try:
            server = _served(stage)
            taken = _take_all(program, server, _furnished(server))
        finally:
            stage.close()
    large = {each.name: each.stat().st_size for each in taken if each.stat().st_size > MOST_BYTES}
    for name, size in large.items():
        print(f"{name} has {size} bytes; {MOST_BYTES} are enough", file=sys.stderr)
    print(f"{len(taken)} pictures in {os.path.relpath(IMAGES)}")
    return 1 if large else 0


def _served(stage: Stage) -> ServerProcess:
    """The demo's jobs on a store with a past."""
    flags = ("--store", stage.url, "--name", "demo")
    serve(stage, *flags, target=TARGET).stop()
    load(stage.app, scenes.MANY, 240, seconds_apart=15)
    return serve(stage, *flags, target=TARGET)


def _furnished(server: ServerProcess) -> dict[str, str]:
    """Fill the pages; which picture is of which path."""
    made = {scene: _start(server, scene.definition, **scene.params) for scene in scenes.SCENES}
    _start(server, "demo.crash")
    _start(server, "demo.payout", month="June", amount=3150)
    server.post("/v1/schedules", {
        "key": "reports.weekdays", "definitionKey": "demo.report", "kind": "cron", "expression": "30 8 * * 1-5",
        "timezone": "Europe/Berlin", "params": {"day": "yesterday"},
    })  # fmt: skip
    # Switched off, so that nothing is sent anywhere.
    hook = server.post("/v1/webhooks", {
        "url": "https://hooks.example.com/penstock", "description": "Tells the shop that a film is ready",
        "enabled": False,
    })  # fmt: skip
    server.until(made[scenes.VIDEO], "succeeded")
    server.until(made[scenes.REVIEW], "review_needed")
    server.until(made[scenes.ENDLESS], "running")
    server.until(made[scenes.CRASH], "failed")
    # A crash has no traceback, which would show where this machine keeps its files.
    (crash,) = [each for each in server.get("/v1/errors")["errors"] if each["definitionKey"] == "demo.crash"]
    return {
        "overview": "",
        "jobs": "jobs?status=failed",
        "job": f"jobs/{made[scenes.VIDEO]}",
        "reviews": "reviews",
        "errors": f"errors?group={quote(crash['fingerprint'])}%20demo.crash",
        "definitions": "definitions",
        "definition": "definitions/demo.video",
        "schedules": "schedules",
        "schedule": "schedules/reports.weekdays",
        "workers": "workers",
        "webhooks": "webhooks",
        "webhook": f"webhooks/{hook['webhookId']}",
        "alerts": "alerts",
        "settings": "settings",
    }


def _start(server: ServerProcess, key: str, **params: object) -> str:
    made: str = server.post("/v1/jobs", {"definitionKey": key, "params": params})["jobId"]
    return made


def _take_all(program: str, server: ServerProcess, pages: dict[str, str]) -> list[Path]:
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 800}, color_scheme=theme, reduced_motion="reduce",
                timezone_id="UTC", locale="en-GB",
            )  # fmt: skip
            page = context.new_page()
            for name, path in pages.items():
                taken.append(IMAGES / f"{name}-{theme}.png")
                _take(page, f"{server.url}/{path}", taken[-1])
        browser.close()
    return taken


def _take(page: Page, url: str, image: Path) -> None:
    page.goto(url)
    page.get_by_label("Live updates: live").wait_for()
    settled(page)
    page.screenshot(path=image)


if __name__ == "__main__":
    sys.exit(main())
