"""A first hour with the demo, from start to end: with the mouse, and again with the keyboard alone."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.http.servers import ServerProcess
from tests.ui.conftest import Window
from tests.ui.input_devices import InputDevice, Keyboard, Mouse
from tests.ui.test_dashboard import state
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, ROOT

pytestmark = pytest.mark.xdist_group("ui-acceptance")
LONG = PATIENCE * 1000
_ADDRESS = re.compile(r"dashboard +(http://\S+?)/?\n")


class DemoProcess(ServerProcess):
    """One `penstock demo`."""

    @property
    def url(self) -> str:
        found = _ADDRESS.search(self.output)
        assert found is not None, self.output
        return found[1]

    def ready(self) -> DemoProcess:
        wait_until(lambda: "Ctrl-C ends the demo" in self.output or not self.alive, "the demo plays", PATIENCE)
        assert self.alive, self.output
        return self

    def only(self, definition: str) -> str:
        """The job of a scene."""
        (job,) = self.get("/v1/jobs", params={"definitionKey": definition})["jobs"]
        found: str = job["jobId"]
        return found


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoProcess]:
    command = [sys.executable, "-m", "penstock", "demo", "--data", str(tmp_path / "data"), "--port", "0"]
    started = DemoProcess(command, {**os.environ, "PYTHONPATH": str(ROOT)}, tmp_path / "demo.log")
    try:
        yield started.ready()
    finally:
        started.kill()


@pytest.mark.parametrize("hands_of", [Mouse, Keyboard])
def test_the_demo_is_seen_killed_approved_run_again_and_scheduled(
    demo: DemoProcess, window: Callable[..., Window], hands_of: Callable[[Page], InputDevice]
) -> None:
    hands = hands_of(window(demo.url).open(""))

    _see_a_job_run_through_its_phases(demo, hands)
    _kill_a_process_and_see_the_job_retry(demo, hands)
    _approve_a_review(demo, hands)
    _run_again_with_other_parameters(demo, hands)
    _make_a_schedule_and_pause_it(demo, hands)


def _see_a_job_run_through_its_phases(demo: DemoProcess, hands: InputDevice) -> None:
    page = hands.page
    first = demo.only("demo.video")
    demo.until(first, "succeeded")
    hands.go("Jobs", "j")
    hands.find("demo.video")
    state(page, "Succeeded")

    hands.act("Run again…", "R")
    hands.press(page.get_by_role("dialog").get_by_role("button", name="Run again", exact=True))

    expect(page).not_to_have_url(re.compile(first), timeout=LONG)
    for phase in ("download", "encode", "publish"):
        expect(page.get_by_role("button", name=re.compile(f"^{phase}: ")).first).to_be_visible(timeout=LONG)
    state(page, "Succeeded")
    expect(page).to_have_title(re.compile("^✓ demo.video"))
    expect(page.locator(".facts-line")).to_contain_text("attempt 2 of 3")


def _kill_a_process_and_see_the_job_retry(demo: DemoProcess, hands: InputDevice) -> None:
    page = hands.page
    hands.go("Jobs", "j")
    hands.find("demo.endless")
    state(page, "Running")
    expect(page.locator(".facts-line")).to_contain_text("attempt 1 of 3")

    # By now it is the only one that runs, but for the tick of a minute.
    wait_until(lambda: len(demo.children()) == 1, "one process runs", PATIENCE)
    os.kill(demo.children()[0], signal.SIGKILL)

    expect(page.get_by_role("button", name="attempt 1: will be tried again")).to_be_visible(timeout=LONG)
    expect(page.locator(".facts-line")).to_contain_text("attempt 2 of 3", timeout=LONG)
    state(page, "Running")


def _approve_a_review(demo: DemoProcess, hands: InputDevice) -> None:
    page = hands.page
    hands.go("Reviews", "v")
    expect(page.get_by_role("heading", name="Pay 4200 for May?")).to_be_visible(timeout=LONG)

    hands.act("Approve…", "a")
    hands.write(page.get_by_label("Note"), "looked at it")
    hands.press(page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True))

    expect(page.get_by_text("No reviews are waiting")).to_be_visible(timeout=LONG)
    job = demo.until(demo.only("demo.payout"), "succeeded")
    assert job["reviews"][0]["decidedNote"] == "looked at it"


def _run_again_with_other_parameters(demo: DemoProcess, hands: InputDevice) -> None:
    page = hands.page
    first = demo.only("demo.greet")
    hands.go("Jobs", "j")
    hands.find("demo.greet")
    state(page, "Succeeded")

    hands.act("Run again…", "R")
    hands.write(page.get_by_role("dialog").get_by_label("name"), "Grace")
    expect(page.get_by_role("region", name="What you changed")).to_contain_text('+   "name": "Grace"')
    hands.press(page.get_by_role("dialog").get_by_role("button", name="Run again", exact=True))

    expect(page).not_to_have_url(re.compile(first), timeout=LONG)
    state(page, "Succeeded")
    made = demo.get(f"/v1/jobs/{page.url.rsplit('/', 1)[1]}")
    assert (made["result"], made["rerunOf"]) == ("Hello Grace", first)


def _make_a_schedule_and_pause_it(demo: DemoProcess, hands: InputDevice) -> None:
    page = hands.page
    hands.go("Schedules", "s")
    expect(page.get_by_role("table", name="Schedules")).to_contain_text("demo.heartbeat")

    hands.act("New schedule…", "n")
    dialog = page.get_by_role("dialog")
    hands.write(dialog.get_by_label("Key", exact=True), "greetings")
    hands.choose(dialog.get_by_label(re.compile("^Definition")), "demo.greet")
    hands.write(dialog.get_by_label("Cron expression"), "30 8 * * 1-5")
    expect(dialog.get_by_role("status").filter(has_text="08:30")).to_be_visible(timeout=LONG)
    hands.write(dialog.get_by_label(re.compile("^name")), "everybody")
    hands.press(dialog.get_by_role("button", name="Make the schedule"))
    expect(page.get_by_role("heading", name="greetings")).to_be_visible(timeout=LONG)

    hands.act("Pause…", "P")
    hands.write(page.get_by_role("dialog").get_by_label("Reason"), "holidays")
    hands.press(page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True))

    expect(page.locator(".facts-line").get_by_text("Paused")).to_be_visible(timeout=LONG)
    stored = demo.get("/v1/schedules/greetings")
    assert stored["pause"]["reason"] == "holidays"
    assert (stored["expression"], stored["params"]) == ("30 8 * * 1-5", {"name": "everybody"})
