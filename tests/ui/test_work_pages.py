"""Reviews, errors, definitions and schedules in a real Chromium: what is shown, and what can be done there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from penstock.domain.definition import Definition
from penstock.storage.commands import admin
from tests.http.servers import ServerProcess
from tests.ui.conftest import Window, violations
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("ui")
Windows = Callable[..., Window]
REFUSED = ("status of 4",)
"""What the browser says of answers that the server is meant to refuse."""
OPEN = [
    "definitions/video",
    "definitions/video?tab=start",
    "definitions/video?tab=schema",
    "definitions/video?tab=versions",
    "schedules/nightly%2Fecho",
    "schedules/nightly%2Fecho?edit=1",
    "schedules?new=1",
    "reviews",
    "errors",
]


def start(server: ServerProcess, key: str, *statuses: str, **params: object) -> str:
    """A job that stands in one of these states."""
    made: str = server.post("/v1/jobs", {"definitionKey": key, "params": params})["jobId"]
    if statuses:
        server.until(made, *statuses)
    return made


def schedule(server: ServerProcess, **facts: Any) -> None:
    asked = {"key": "nightly/echo", "definitionKey": "echo", "kind": "cron", "expression": "0 3 * * *", **facts}
    server.post("/v1/schedules", asked)


def dialog_button(page: Page, name: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_of_one_thing_are_accessible_and_lose_nothing_to_the_side(
    server: ServerProcess, window: Windows, theme: str
) -> None:
    start(server, "broken", "failed")
    start(server, "payout", "review_needed", month="2100-01", amount=42)
    schedule(server, timezone="Europe/Berlin", params={"value": 9007199254740993})
    opened = window(server.url, color_scheme=theme)
    page = opened.open()

    found = {}
    for path in OPEN:
        page.set_viewport_size({"width": 1280, "height": 860})
        page.goto(opened.home + path)
        page.wait_for_selector("h1")
        page.wait_for_selector("dialog[open]" if path.endswith("=1") else "main .card, main table")
        found[path] = violations(page)
        page.set_viewport_size({"width": 320, "height": 640})
        if page.evaluate("document.documentElement.scrollWidth") > 320:
            found[path].append("it is wider than the window")
    assert {path: what for path, what in found.items() if what} == {}


def test_a_review_is_approved_by_keyboard_with_another_result_and_never_without_being_asked(
    server: ServerProcess, window: Windows
) -> None:
    jobs = [start(server, "payout", "review_needed", month=f"2100-0{number}", amount=number) for number in (1, 2)]
    page = window(server.url).open("reviews")

    expect(page.get_by_role("heading", name="Pay 1 for 2100-01?")).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Pay 2 for 2100-02?")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_role("dialog", name="Approve")).to_contain_text("Pay 2 for 2100-02?")
    assert server.get(f"/v1/jobs/{jobs[1]}")["status"] == "review_needed"
    page.keyboard.type("seen")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.get_by_role("textbox", name="Result").fill('{"paid": 9007199254740993, "b": 1, "a": 2}')
    dialog_button(page, "Approve")

    expect(page.get_by_role("heading", name="Pay 1 for 2100-01?")).to_be_visible()
    server.until(jobs[1], "succeeded")
    told = server.request("GET", f"/v1/jobs/{jobs[1]}")
    assert '"result":{"paid":9007199254740993,"b":1,"a":2}' in told.text.replace(" ", "")
    assert told.json()["reviews"][0]["decidedNote"] == "seen"


def test_a_review_is_rejected_with_a_reason_and_the_inbox_says_when_it_is_empty(
    server: ServerProcess, window: Windows
) -> None:
    job = start(server, "payout", "review_needed", month="2100-01", amount=1)
    page = window(server.url).open("reviews")
    expect(page.get_by_role("heading", name="Pay 1 for 2100-01?")).to_be_visible()

    page.keyboard.press("x")
    expect(page.get_by_role("dialog").get_by_role("button", name="Reject", exact=True)).to_be_disabled()
    page.keyboard.type("too much")
    dialog_button(page, "Reject")

    expect(page.get_by_text("No reviews are waiting")).to_be_visible()
    expect(page.get_by_text("Rejected", exact=True)).to_be_visible()
    assert server.until(job, "failed")["error"]["message"] == "too much"


def test_a_review_that_somebody_else_decided_meanwhile_is_not_decided_again(
    server: ServerProcess, window: Windows
) -> None:
    job = start(server, "payout", "review_needed", month="2100-01", amount=1)
    page = window(server.url).open("reviews")
    expect(page.get_by_role("heading", name="Pay 1 for 2100-01?")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()

    server.post(f"/v1/jobs/{job}/reject", {"note": "faster"})

    expect(page.get_by_role("alert")).to_contain_text("Meanwhile this was decided")
    expect(page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True)).to_be_disabled()


def test_all_failed_jobs_of_an_error_are_retried_after_their_count_was_shown(
    server: ServerProcess, window: Windows
) -> None:
    jobs = [start(server, "broken", "failed", why=str(number)) for number in range(3)]
    page = window(server.url).open("errors")

    expect(page.get_by_role("region", name="Newest traceback")).to_contain_text("It is broken: 2")
    page.keyboard.press("r")
    expect(page.get_by_role("dialog")).to_contain_text("Retry 3 jobs?")
    assert {server.get(f"/v1/jobs/{job}")["generation"] for job in jobs} == {1}
    dialog_button(page, "Retry")

    expect(page.get_by_text("3 jobs queued again")).to_be_visible()
    expect(page.locator("dl.figures")).to_contain_text("6")
    assert {server.until(job, "failed")["generation"] for job in jobs} == {2}


def test_a_failure_appears_among_the_errors_without_a_reload(server: ServerProcess, window: Windows) -> None:
    page = window(server.url).open("errors")
    expect(page.get_by_text("No failures in the last 24 hours")).to_be_visible()

    start(server, "broken", "failed", why="of this")

    expect(page.get_by_role("article")).to_contain_text("It is broken: of this")


def test_a_job_is_started_from_the_form_of_its_schema_exactly_as_written(
    server: ServerProcess, window: Windows
) -> None:
    page = window(server.url).open("definitions")
    page.get_by_role("link", name="Start a job of echo").click()

    page.get_by_role("textbox", name="value").fill("9007199254740993")
    page.get_by_role("textbox", name="note").fill("it's")
    cli, curl, python = (
        each.get_attribute("title") for each in page.get_by_role("group", name="Copy as").get_by_role("button").all()
    )
    page.get_by_role("button", name="Start the job").click()
    page.wait_for_url("**/jobs/*")

    told = server.request("GET", f"/v1/jobs/{page.url.rsplit('/', 1)[1]}").text.replace(" ", "")
    assert '"params":{"value":9007199254740993,"note":"it\'s"}' in told
    assert cli == """penstock enqueue echo --params '{"value": 9007199254740993, "note": "it'\\''s"}'"""
    assert str(curl).startswith(f"curl -X POST {server.url}/v1/jobs ")
    assert python == """app.enqueue("echo", {"value": 9007199254740993, "note": "it's"})"""


def test_a_definition_is_paused_resumed_disabled_and_limited(server: ServerProcess, window: Windows) -> None:
    page = window(server.url).open("definitions/echo")
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()

    page.keyboard.press("P")
    page.keyboard.type("Looking at it")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Looking at it")).to_be_visible()
    assert server.get("/v1/definitions/echo")["pause"]["reason"] == "Looking at it"
    page.keyboard.press("P")
    expect(page.get_by_text("Looking at it")).to_have_count(0)
    page.get_by_role("button", name="Change limits…").click()
    page.get_by_role("combobox", name="Jobs at once").select_option("other")
    page.get_by_role("spinbutton").fill("3")
    page.get_by_role("textbox", name="Priority").fill("17")
    page.get_by_role("textbox", name="Pause before another attempt").fill("5, 60")
    page.get_by_role("combobox", name="Lowest log level kept").select_option("debug")
    dialog_button(page, "Save")
    expect(page.get_by_text("of 3 at once")).to_be_visible()
    page.get_by_role("button", name="Disable…").click()
    dialog_button(page, "Disable")

    expect(page.get_by_text("Disabled", exact=True)).to_be_visible()
    expect(page.get_by_role("group", name="Actions").get_by_role("button", name="Start a job")).to_have_count(0)
    told = server.get("/v1/definitions/echo")
    assert (told["enabled"], told["pause"], told["overrides"]["concurrency"]) == (False, None, 3)
    assert (told["overrides"]["priority"], told["overrides"]["backoff"]["seconds"]) == (17, [5, 60])
    assert told["overrides"]["logLevel"] == "debug"


def test_a_definition_that_no_code_declares_is_retired_and_removed(
    stage: Stage, server: ServerProcess, window: Windows
) -> None:
    stage.app.store.run(admin.register([Definition("gone")]))
    page = window(server.url).open("definitions/gone")

    page.get_by_role("button", name="Retire…").click()
    dialog_button(page, "Retire")
    expect(page.get_by_text("Retired", exact=True)).to_be_visible()
    expect(page.get_by_role("group", name="Actions").get_by_role("button", name="Start a job")).to_have_count(0)
    assert server.get("/v1/definitions/gone")["retired"]["by"] == "local"
    page.get_by_role("button", name="Remove…").click()
    dialog_button(page, "Remove")

    page.wait_for_url("**/definitions")
    assert "gone" not in {each["key"] for each in server.get("/v1/definitions")["definitions"]}


def test_a_schedule_is_made_while_its_ticks_are_shown_run_at_once_and_deleted(
    server: ServerProcess, window: Windows
) -> None:
    page = window(server.url, forgiven=REFUSED).open("schedules")
    expect(page.get_by_text("No schedule yet")).to_be_visible()

    page.keyboard.press("n")
    page.keyboard.type("made/here")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Definition").select_option("echo")
    dialog.get_by_role("textbox", name="Cron expression").fill("61 * * * *")
    expect(dialog.get_by_text("'61' is no minute")).to_be_visible()
    expect(dialog.get_by_role("button", name="Make the schedule")).to_be_disabled()
    dialog.get_by_role("textbox", name="Cron expression").fill("0 9 * * 1-5")
    expect(dialog.get_by_text("At 09:00 on Monday through Friday")).to_be_visible()
    expect(dialog.get_by_role("row")).to_have_count(11)
    dialog_button(page, "Make the schedule")
    expect(page.get_by_role("heading", name="made/here")).to_be_visible()
    page.keyboard.press("r")
    dialog_button(page, "Make a job now")
    expect(page.get_by_text("A job is made")).to_be_visible()
    (job,) = server.get("/v1/jobs", params={"scheduleId": "made/here"})["jobs"]
    server.until(job["jobId"], "succeeded")
    page.get_by_role("button", name="Delete…").click()
    dialog_button(page, "Delete the schedule")

    expect(page.get_by_text("No schedule yet")).to_be_visible()
    assert server.get("/v1/schedules")["schedules"] == []


def test_a_change_of_a_schedule_does_not_undo_what_somebody_else_saved_meanwhile(
    server: ServerProcess, window: Windows
) -> None:
    schedule(server, params={"value": 9007199254740993})
    page = window(server.url, forgiven=REFUSED).open("schedules/nightly%2Fecho?edit=1")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Cron expression").fill("0 7 * * *")

    server.request("PATCH", "/v1/schedules/nightly%2Fecho", json={"overlap": "skip"})
    dialog_button(page, "Save")
    expect(dialog.get_by_role("alert")).to_contain_text("Different now: overlap. Yours: expression.")
    assert server.get("/v1/schedules/nightly%2Fecho")["expression"] == "0 3 * * *"
    dialog_button(page, "Keep my changes, on top of theirs")
    dialog_button(page, "Save")
    expect(dialog).to_have_count(0)

    told = server.request("GET", "/v1/schedules/nightly%2Fecho")
    assert (told.json()["expression"], told.json()["overlap"]) == ("0 7 * * *", "skip")
    assert '"value":9007199254740993' in told.text.replace(" ", "")


def test_who_may_only_look_sees_no_action_on_any_of_these_pages(
    stage: Stage, server: ServerProcess, window: Windows
) -> None:
    start(server, "broken", "failed")
    start(server, "payout", "review_needed", month="2100-01", amount=1)
    schedule(server)
    token = stage.app.tokens.create("reader", "viewer", by="test").text
    # The server takes a moment to learn of the first token; what is asked for around it is refused.
    opened = window(server.url, forgiven=REFUSED)
    page = opened.open("reviews")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_text("an admin decides")).to_be_visible()
    for path in OPEN:
        page.goto(opened.home + path)
        page.wait_for_selector("main .card, main table")
        for verb in (
            "Approve…",
            "Reject…",
            "Retry all failed",
            "Start",
            "Pause…",
            "Disable…",
            "Change",
            "New schedule",
            "Run now",
            "Delete…",
        ):
            expect(page.get_by_role("main").get_by_role("button", name=verb)).to_have_count(0)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("link", name="Start a job of")).to_have_count(0)
