"""The ground of the dashboard in a real Chromium: pages, live updates, exact payloads, keys, roles."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.domain.access import Role
from penstock.http.dashboard import FOLDER
from tests.http.servers import ServerProcess, serve
from tests.ui.conftest import APPLICATION, PATIENCE, Allowance, Window, violations
from tests.waiting import wait_until
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("ui")
Windows = Callable[..., Window]
EXACT = '{"value": 9007199254740993, "note": "b"}'
PAGES = [
    "",
    "jobs",
    "reviews",
    "errors",
    "definitions",
    "schedules",
    "workers",
    "webhooks",
    "alerts",
    "settings",
    "nope",
]


def state(page: Page, word: str) -> None:
    """Wait until the page of a job shows a state."""
    expect(page.locator(".facts-line").get_by_text(word, exact=True)).to_be_visible(timeout=PATIENCE)


def start(server: ServerProcess, key: str, **params: object) -> str:
    made: str = server.post("/v1/jobs", {"definitionKey": key, "params": params})["jobId"]
    return made


def token_of(stage: Stage, server: ServerProcess, role: Role) -> str:
    """A token of this role, once the server lets nobody in without one."""
    made = stage.app.tokens.create(f"the {role}", role, by="test").text
    wait_until(lambda: server.request("GET", "/v1/jobs").status_code == 401, "the server is closed")
    return made


def wrong_on(opened: Window, paths: list[str]) -> dict[str, list[str]]:
    """What is wrong with which page."""
    page = opened.open()
    found = {}
    for path in paths:
        page.goto(opened.home + path)
        page.wait_for_selector("h1")
        expect(page.get_by_label("Live updates: live")).to_be_visible(timeout=PATIENCE)
        found[path] = violations(page)
    return {path: what for path, what in found.items() if what}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_empty_page_is_accessible(server: ServerProcess, window: Windows, theme: str) -> None:
    assert wrong_on(window(server.url, color_scheme=theme), PAGES) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_filled_page_is_accessible(server: ServerProcess, window: Windows, theme: str) -> None:
    jobs = [start(server, "echo"), start(server, "broken"), start(server, "payout", month="2100-01", amount=42)]
    video = start(server, "video", url="a.mov")
    for job in jobs:
        server.until(job, "succeeded", "failed", "review_needed")
    server.until(video, "succeeded")
    tabs = [f"jobs/{video}{tab}" for tab in ("", "?tab=data", "?tab=events", "?tab=related")]

    paths = [*PAGES, *tabs, f"jobs/{jobs[1]}?tab=attempts", f"jobs/{jobs[2]}"]
    assert wrong_on(window(server.url, color_scheme=theme), paths) == {}


def test_a_job_is_seen_going_through_its_phases_without_a_reload(
    server: ServerProcess, window: Windows, tmp_path: Path
) -> None:
    allowance = Allowance(tmp_path, 5)
    job = start(server, "video", url="a.mov", allowed=str(allowance.path))
    page = window(server.url).open(f"jobs/{job}")

    expect(page.get_by_role("button", name="shrink")).to_be_visible(timeout=PATIENCE)
    allowance.raise_to(10)
    state(page, "Succeeded")

    expect(page.get_by_text("frame 9", exact=True)).to_be_visible()
    assert page.title().startswith("✓ video")


def test_all_tabs_of_a_browser_are_live_over_one_connection(server: ServerProcess, window: Windows) -> None:
    opened = window(server.url)
    tabs = [opened.open("jobs") for _ in range(7)]

    job = start(server, "echo", note="seen everywhere")

    for tab in tabs:
        expect(tab.get_by_title(f"Copy {job}")).to_be_visible(timeout=PATIENCE)


def test_a_restarted_server_is_found_again_and_nothing_is_missed(stage: Stage, window: Windows) -> None:
    first = serve(stage, target=APPLICATION)
    port = int(first.url.rsplit(":", 1)[1])
    page = window(first.url, forgiven=("net::ERR_",)).open("jobs")
    expect(page.get_by_label("Live updates: live")).to_be_visible()

    first.stop()
    expect(page.get_by_label("Live updates: ").filter(has_text="live")).to_have_count(0, timeout=PATIENCE)
    second = serve(stage, target=APPLICATION, port=port)
    job = start(second, "echo")

    expect(page.get_by_label("Live updates: live")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_title(f"Copy {job}")).to_be_visible(timeout=PATIENCE)


def test_a_payload_is_shown_and_run_again_exactly_as_it_was_sent(server: ServerProcess, window: Windows) -> None:
    body = f'{{"definitionKey": "echo", "params": {EXACT}}}'
    sent = server.request("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    job = sent.json()["jobId"]
    server.until(job, "succeeded")
    page = window(server.url).open(f"jobs/{job}?tab=data")

    expect(page.get_by_role("region", name="parameters")).to_contain_text("9007199254740993")
    page.keyboard.press("R")
    expect(page.get_by_label("value")).to_have_value("9007199254740993")
    page.get_by_label("note").fill("edited")
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page).not_to_have_url(f"{server.url}/jobs/{job}?tab=data")
    state(page, "Succeeded")

    made = page.url.rsplit("/", 1)[1]
    text = server.request("GET", f"/v1/jobs/{made}").text.replace(" ", "")
    assert '"params":{"value":9007199254740993,"note":"edited"}' in text
    assert server.get(f"/v1/jobs/{made}")["rerunOf"] == job


def test_the_list_can_be_used_with_the_keyboard_alone(server: ServerProcess, window: Windows) -> None:
    jobs = [start(server, "broken", why=str(number)) for number in range(3)]
    for job in jobs:
        server.until(job, "failed")
    page = window(server.url).open("")

    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("row")).to_have_count(4)
    for key in ("j", "x", "j", "j", "X"):
        page.keyboard.press(key)
    expect(page.get_by_role("toolbar")).to_contain_text("3 jobs selected")
    page.get_by_role("toolbar").get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Delete 3 jobs?")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.get_by_text("No job yet")).to_be_visible()
    assert server.get("/v1/jobs")["jobs"] == []


def test_a_filter_is_the_address_and_the_other_way_round(server: ServerProcess, window: Windows) -> None:
    server.until(start(server, "broken"), "failed")
    good = start(server, "echo")
    server.until(good, "succeeded")
    opened = window(server.url)
    page = opened.open("jobs")

    page.get_by_label("Definition", exact=True).fill("broken")
    page.get_by_role("button", name="Add filter").click()

    expect(page).to_have_url(f"{server.url}/jobs?definitionKey=broken")
    expect(page.get_by_role("row")).to_have_count(2)
    shared = opened.open("jobs?status=succeeded")
    expect(shared.get_by_title(f"Copy {good}")).to_be_visible()
    expect(shared.get_by_role("row")).to_have_count(2)
    shared.get_by_role("button", name="Remove filter Status succeeded").click()
    expect(shared.get_by_role("row")).to_have_count(3)


def test_whoever_may_only_read_sees_no_action_and_whoever_has_no_token_signs_in(
    stage: Stage, server: ServerProcess, window: Windows
) -> None:
    job = start(server, "broken")
    server.until(job, "failed")
    token = token_of(stage, server, Role.VIEWER)
    opened = window(server.url)
    page = opened.open(f"jobs/{job}")

    expect(page.get_by_role("heading", name="Sign in to penstock")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()

    state(page, "Failed")
    expect(page.get_by_role("group", name="Actions").get_by_role("button")).to_have_count(0)
    listed = opened.open("jobs")
    expect(listed.get_by_role("row")).to_have_count(2)
    expect(listed.get_by_role("checkbox")).to_have_count(0)
    listed.get_by_role("button", name="Sign out").click()
    expect(listed.get_by_role("heading", name="Sign in to penstock")).to_be_visible()


def test_a_review_is_answered_on_the_page_of_its_job(server: ServerProcess, window: Windows) -> None:
    job = start(server, "payout", month="2100-01", amount=42)
    server.until(job, "review_needed")
    page = window(server.url).open(f"jobs/{job}")

    expect(page.get_by_text("Pay 42 for 2100-01?")).to_be_visible()
    page.get_by_label("Note").fill("fine")
    page.get_by_role("button", name="Approve").click()

    state(page, "Succeeded")
    assert server.get(f"/v1/jobs/{job}")["reviews"][0]["decidedNote"] == "fine"


def test_a_narrow_page_loses_nothing_to_the_side(server: ServerProcess, window: Windows) -> None:
    job = start(server, "video", url="a.mov")
    server.until(job, "succeeded")
    opened = window(server.url)

    for path in ("", "jobs", f"jobs/{job}"):
        page = opened.open(path)
        page.set_viewport_size({"width": 320, "height": 640})
        # The page is laid out anew when it hears of its size; its policy allows no wait_for_function.
        wait_until(partial(page.evaluate, "document.documentElement.scrollWidth <= 320"), f"/{path} fits")


def test_the_first_load_is_small(window: Windows, server: ServerProcess) -> None:
    loaded: set[str] = set()
    opened = window(server.url)
    page = opened.context.new_page()
    page.on("request", lambda asked: loaded.add(asked.url.rsplit("/", 1)[1]))
    page.goto(server.url)
    page.wait_for_selector("h1")

    size = sum(len(gzip.compress(_built(name).read_bytes(), 9)) for name in loaded if name.endswith(".js"))

    assert 0 < size <= 120_000


def _built(name: str) -> Path:
    (found,) = FOLDER.rglob(name)
    return found
