"""What the dashboard has to stand: many jobs, dead workers, restarts, a flood of events, readers, a path of its own."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.domain.access import Role
from tests.http.servers import ServerProcess, serve
from tests.ui.conftest import APPLICATION, PATIENCE, Allowance, Window, answers, settled
from tests.ui.loaded import load
from tests.ui.test_dashboard import PAGES, start, state, token_of
from tests.waiting import wait_until
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("ui-acceptance")
Windows = Callable[..., Window]
MANY = 100_000
SERVER_TIME = 500.0
"""Milliseconds that any answer may take."""
ROUNDS = 2
EXACT = '{"n": 9007199254740993, "b": 1, "a": 2}'
ACTION = re.compile(
    r"(?<![.\w])(retry|again|cancel|delete|approve|reject|pause|resume|enable|disable|create|add(?! filter)|start|edit"
    r"|save|rotate|redeliver|revoke|run now|send|new)\b",
    re.IGNORECASE,
)


def test_overview_and_jobs_are_ready_at_once_also_with_very_many_jobs(stage: Stage, window: Windows) -> None:
    server = serve(stage, target=APPLICATION)
    server.stop()
    load(stage.app, "echo", MANY)
    server = serve(stage, target=APPLICATION)
    opened = window(server.url)
    best: dict[str, float] = {}

    for _ in range(ROUNDS):
        for path in ("", "jobs", "jobs?status=failed", "errors", "definitions"):
            page = opened.open(path)
            settled(page)
            for asked, took in answers(page):
                best[asked] = min(took, best.get(asked, took))
            page.close()

    assert {asked: took for asked, took in best.items() if took > SERVER_TIME} == {}
    page = opened.open("jobs")
    expect(page.get_by_role("status").filter(has_text="10\u202f000+ jobs")).to_be_visible()
    expect(page.get_by_role("button", name="Succeeded")).to_contain_text("97\u202f500")


def test_the_list_is_walked_through_far_beyond_its_first_page(stage: Stage, window: Windows) -> None:
    server = serve(stage, target=APPLICATION)
    server.stop()
    load(stage.app, "echo", 1000)
    server = serve(stage, target=APPLICATION)
    page = window(server.url).open("jobs")
    table = page.get_by_role("table", name="Jobs")
    expect(table).to_have_attribute("aria-rowcount", "101")

    for loaded in ("201", "301", "401"):
        page.get_by_role("region", name="Jobs").evaluate("place => place.scrollTo(0, place.scrollHeight)")
        expect(table).to_have_attribute("aria-rowcount", loaded, timeout=PATIENCE)

    assert table.get_by_role("row").count() < 80, "only rows that are seen exist"


def test_a_killed_worker_is_seen_as_lost_and_its_job_as_recovered_without_a_reload(
    stage: Stage, window: Windows
) -> None:
    server = serve(stage, target=APPLICATION, worker=False)
    workers = [stage.worker(target=APPLICATION) for _ in range(2)]
    allowance = Allowance(stage.folder, 5)
    job = start(server, "count", lines=30, allowed=str(allowance.path))
    page = window(server.url).open(f"jobs/{job}")
    expect(page.get_by_text("line 3 with fence 1")).to_be_visible(timeout=PATIENCE)
    holder = server.get(f"/v1/jobs/{job}")["workerId"]
    (pid,) = [each["pid"] for each in server.get("/v1/workers")["workers"] if each["workerId"] == holder]

    next(each for each in workers if each.pid == pid).send(signal.SIGKILL)

    wait_until(lambda: server.get(f"/v1/jobs/{job}")["lost"] == 1, "the job is lost")
    expect(page.locator(".facts-line")).to_contain_text("1 lost", timeout=2000 + slack())
    allowance.raise_to(30)
    expect(page.get_by_role("button", name="lost its worker")).to_be_visible()
    state(page, "Succeeded")


def test_a_restart_of_the_server_costs_an_open_page_no_line_and_doubles_none(stage: Stage, window: Windows) -> None:
    first = serve(stage, target=APPLICATION, worker=False)
    port = int(first.url.rsplit(":", 1)[1])
    stage.worker(target=APPLICATION)
    allowance = Allowance(stage.folder, 20)
    job = start(first, "count", lines=60, allowed=str(allowance.path))
    page = window(first.url, forgiven=("net::ERR_",), accept_downloads=True).open(f"jobs/{job}")
    expect(page.get_by_text("line 5 with")).to_be_visible(timeout=PATIENCE)

    first.stop()
    expect(page.get_by_label(re.compile("Live updates: (restarting|offline)"))).to_be_visible(timeout=PATIENCE)
    allowance.raise_to(40)
    wait_until(lambda: len(stage.app.jobs.logs(job)) == 40, "lines were written while the server was away")
    second = serve(stage, target=APPLICATION, worker=False, port=port)
    expect(page.get_by_label("Live updates: live")).to_be_visible(timeout=PATIENCE)
    allowance.raise_to(60)

    state(page, "Succeeded")
    written = [each["message"] for each in second.get(f"/v1/jobs/{job}/logs", params={"limit": 500})["logs"]]
    expect(page.get_by_role("region", name="Log").get_by_role("status")).to_have_text(f"{len(written)} lines")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    shown = [line.split("  ", 1)[-1] for line in Path(download.value.path()).read_text().splitlines()]
    assert len(written) == 60
    assert [line[line.index("line ") :] for line in shown] == written


def test_typing_and_choosing_go_on_undisturbed_while_many_jobs_come(server: ServerProcess, window: Windows) -> None:
    chosen = start(server, "echo", note="the chosen one")
    page = window(server.url).open("jobs")
    page.get_by_label(f"Select {chosen}").check()
    over = threading.Event()
    made: list[int] = []
    flood = threading.Thread(target=_flood, args=(server, over, made))
    flood.start()
    try:
        field = page.get_by_label("Definition", exact=True)
        field.focus()
        wait_until(lambda: sum(made) > 20, "jobs come")
        text = "the quick brown fox jumps over the lazy dog"
        for letter in text:
            page.keyboard.press("Space" if letter == " " else letter, delay=20)
        wait_until(lambda: sum(made) > 100, "many jobs have come")

        expect(field).to_have_value(text)
        expect(field).to_be_focused()
        expect(page.get_by_role("toolbar")).to_contain_text("1 job selected")
        expect(page.get_by_label(f"Select {chosen}")).to_be_checked()
        expect(page.get_by_role("button", name=re.compile(r"\d+ new, show"))).to_be_visible()
    finally:
        over.set()
        flood.join()


def test_a_payload_is_shown_copied_and_run_again_byte_by_byte(shared: ServerProcess, window: Windows) -> None:
    body = f'{{"definitionKey": "keep", "params": {EXACT}}}'
    sent = shared.request("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    job = sent.json()["jobId"]
    shared.until(job, "succeeded")
    page = window(shared.url, permissions=["clipboard-read", "clipboard-write"]).open(f"jobs/{job}?tab=data")

    shown = page.get_by_role("region", name="parameters").inner_text()
    page.get_by_role("button", name="Copy parameters").click()
    expect(page.get_by_text("Copied parameters")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="Run again…").click()
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(page).not_to_have_url(re.compile(job))
    made = page.url.rsplit("/", 1)[1].partition("?")[0]

    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", EXACT)
    assert copied == _params(shared, job)
    assert _params(shared, made) == _params(shared, job)
    assert re.sub(r"\s", "", copied) == re.sub(r"\s", "", EXACT)


def test_without_the_clipboard_of_secure_pages_copying_still_works(shared: ServerProcess, window: Windows) -> None:
    job = start(shared, "echo")
    opened = window(shared.url)
    opened.context.add_init_script("delete Navigator.prototype.clipboard")
    page = opened.open(f"jobs/{job}")

    page.get_by_title(f"Copy {job}").click()

    expect(page.get_by_role("status").filter(has_text="Copied")).to_be_visible()


def test_no_page_offers_a_reader_anything_to_do(stage: Stage, server: ServerProcess, window: Windows) -> None:
    failed, review = start(server, "broken"), start(server, "payout", month="May", amount=1)
    server.until(failed, "failed")
    server.until(review, "review_needed")
    _furnish(server)
    opened = window(server.url)
    page = _signed_in(stage, server, opened, Role.VIEWER)

    offered = {}
    singles = [f"jobs/{failed}", f"jobs/{review}", "definitions/echo", "schedules/nightly"]
    for path in [*PAGES, *singles, "settings?tab=tokens", "settings?tab=audit", "workers?tab=configuration"]:
        page.goto(opened.home + path)
        settled(page)
        buttons = page.locator("main").get_by_role("button").all_inner_texts()
        links = page.locator("main a.button").all_inner_texts()
        found = [text for text in [*buttons, *links] if ACTION.search(text.strip())]
        if found:
            offered[path] = found
    assert offered == {}


def test_whoever_may_do_everything_is_offered_something_on_these_pages(
    stage: Stage, server: ServerProcess, window: Windows
) -> None:
    """The opposite of the test before: it would also pass if the pages showed nothing at all."""
    failed = start(server, "broken")
    server.until(failed, "failed")
    _furnish(server)
    opened = window(server.url)
    page = _signed_in(stage, server, opened, Role.SUPER_ADMIN)

    for path in (f"jobs/{failed}", "schedules/nightly", "definitions/echo", "webhooks", "settings?tab=tokens", "jobs"):
        page.goto(opened.home + path)
        page.wait_for_selector("h1")
        offered = page.locator("main").locator("button, a.button").filter(has_text=ACTION)
        expect(offered.first, path).to_be_visible(timeout=PATIENCE)


def test_below_a_path_that_no_proxy_strips_everything_works(stage: Stage, window: Windows, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "penstock.toml").write_text('[web]\nroot_path = "/ops/penstock"\n')
    server = serve(stage, target=APPLICATION, folder=folder)
    job = start(server, "broken")
    server.until(job, "failed")
    home = f"{server.url}/ops/penstock"
    page = _signed_in(stage, server, window(home), Role.ADMIN)

    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page).to_have_url(f"{home}/jobs")
    page.get_by_role("link", name="broken").click()
    state(page, "Failed")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("It is queued again")).to_be_visible()
    expect(page.get_by_role("tab", name="Attempts 2")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_label("Live updates: live")).to_be_visible()
    page.reload()
    state(page, "Failed")


def test_a_running_phase_the_title_and_the_icon_tell_how_far_it_is(
    shared: ServerProcess, window: Windows, tmp_path: Path
) -> None:
    allowance = Allowance(tmp_path, 6)
    job = start(shared, "video", url="a.mov", allowed=str(allowance.path))
    page = window(shared.url).open(f"jobs/{job}")
    icon = page.locator('link[rel="icon"]')

    expect(page.get_by_role("button", name=re.compile(r"^shrink: [1-9]\d? % frame \d"))).to_be_visible(timeout=PATIENCE)
    expect(page).to_have_title(re.compile(r"^◐ [4-9]\d % video"))
    busy = icon.get_attribute("href")
    allowance.raise_to(10)
    state(page, "Succeeded")

    expect(page).to_have_title(re.compile("^✓ video"))
    done = icon.get_attribute("href")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(icon).to_have_attribute("href", "./icon.svg")
    assert busy != done
    assert str(busy).startswith("data:image/svg+xml,")
    assert str(done).startswith("data:image/svg+xml,")


def test_the_timeline_is_looked_at_closely_with_keys_and_the_address_keeps_it(
    shared: ServerProcess, window: Windows, tmp_path: Path
) -> None:
    allowance = Allowance(tmp_path, 5)
    job = start(shared, "video", url="a.mov", allowed=str(allowance.path))
    opened = window(shared.url)
    page = opened.open(f"jobs/{job}")
    # By now the phase that waits has a length that can be drawn.
    expect(page.get_by_role("button", name=re.compile("^shrink: [1-9]"))).to_be_visible(timeout=PATIENCE)
    allowance.raise_to(10)
    state(page, "Succeeded")
    bar = page.get_by_role("button", name="shrink: completed")
    expect(bar).to_be_visible()
    whole = _width(bar)

    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("view=25-75"))
    closer = _width(bar)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("view=37.5-87.5"))
    sent = opened.open(page.url.removeprefix(opened.home))
    assert abs(_width(sent.get_by_role("button", name="shrink: completed")) - closer) < 2
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("view="))
    page.keyboard.press("w")
    expect(bar).to_have_count(0)
    page.keyboard.press("e")
    expect(bar).to_be_visible()

    assert 1.9 < closer / whole < 2.1


def test_the_timeline_shows_what_each_attempt_did_in_its_phases(shared: ServerProcess, window: Windows) -> None:
    job = start(shared, "call")
    shared.until(job, "succeeded")
    page = window(shared.url).open(f"jobs/{job}")

    bars = page.get_by_role("button", name=re.compile("^(attempt|dial|connect|call)"))

    expect(page.get_by_role("button", name="call: completed")).to_be_visible(timeout=PATIENCE)
    names = [str(bar.get_attribute("aria-label")).split(",")[0] for bar in bars.all()]
    assert names == [
        "attempt 1: will be tried again", "dial: completed", "connect: failed",
        "attempt 2: succeeded", "connect: completed", "call: completed",
    ]  # fmt: skip
    page.get_by_role("tab", name=re.compile("^Attempts")).click()
    expect(page.get_by_role("list", name="Phases of attempt 1")).to_contain_text("connect failed at 40 %")
    expect(page.get_by_role("list", name="Phases of attempt 2")).to_contain_text("call completed")


def test_what_was_edited_for_a_new_run_is_shown_line_by_line(shared: ServerProcess, window: Windows) -> None:
    job = start(shared, "echo", value=1, note="before")
    shared.until(job, "succeeded")
    page = window(shared.url).open(f"jobs/{job}")

    page.keyboard.press("R")
    page.get_by_label("note").fill("after")

    changed = page.get_by_role("region", name="What you changed")
    expect(changed.locator("del")).to_have_text('−   "note": "before"')
    expect(changed.locator("ins")).to_have_text('+   "note": "after"')


def test_what_a_page_asks_of_other_hosts_is_refused_and_noticed(shared: ServerProcess, browser: Browser) -> None:
    opened = Window(browser, shared.url)
    page = opened.open("")

    page.evaluate("fetch('http://localhost:9/elsewhere').catch(() => {})")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://localhost:9/picture.png'}))")

    wait_until(lambda: len(page.evaluate("1") and opened.complaints) >= 2, "the complaints are heard")
    assert any("Content Security Policy" in each and "connect-src" in each for each in opened.complaints)
    assert any("Content Security Policy" in each and "img-src" in each for each in opened.complaints)
    opened.context.close()


def slack() -> float:
    """Milliseconds more on machines that others use too."""
    return 3000.0


def _width(bar: Any) -> float:
    box = bar.bounding_box()
    assert box is not None
    return float(box["width"])


def _params(server: ServerProcess, job: str) -> str:
    text = server.request("GET", f"/v1/jobs/{job}").text
    found = re.search(r'"params":\s*(\{[^}]*\})', text)
    assert found is not None
    return found[1]


def _flood(server: ServerProcess, over: threading.Event, made: list[int]) -> None:
    """Fifty jobs a second."""
    orders = [{"definitionKey": "echo", "params": {"value": number}} for number in range(10)]
    while not over.wait(0.2):
        server.post("/v1/jobs/batch", {"jobs": orders})
        made.append(len(orders))


def _furnish(server: ServerProcess) -> None:
    """One of each thing that operators make."""
    nightly = {"key": "nightly", "definitionKey": "echo", "kind": "cron", "expression": "0 3 * * *"}
    server.post("/v1/schedules", nightly)
    server.post("/v1/webhooks", {"url": "https://hooks.example.com/x", "enabled": False})


def _signed_in(stage: Stage, server: ServerProcess, opened: Window, role: Role) -> Page:
    token = token_of(stage, server, role)
    page = opened.open("")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=PATIENCE)
    return page
