"""What axe-core cannot see: where the focus goes, what moves, and who may turn keys off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.http.servers import ServerProcess
from tests.ui.conftest import Allowance, Window, violations
from tests.ui.test_dashboard import start, state

pytestmark = pytest.mark.xdist_group("ui-acceptance")
Windows = Callable[..., Window]


def test_the_check_of_pages_finds_what_is_wrong_with_one(shared: ServerProcess, window: Windows) -> None:
    page = window(shared.url).open("")
    assert violations(page) == []

    page.evaluate("""document.querySelector("main").append(
        Object.assign(document.createElement("img"), {src: "icon.svg"}), document.createElement("button"))""")

    assert sorted(each.partition(":")[0] for each in violations(page)) == ["button-name", "image-alt"]


def test_the_first_tab_leads_past_the_navigation(shared: ServerProcess, window: Windows) -> None:
    page = window(shared.url).open("jobs")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("main")).to_be_focused()
    expect(page).to_have_url(f"{shared.url}/jobs")


def test_a_dialog_keeps_the_focus_and_gives_it_back(shared: ServerProcess, window: Windows) -> None:
    job = start(shared, "echo")
    shared.until(job, "succeeded")
    page = window(shared.url).open(f"jobs/{job}")
    opener = page.get_by_role("button", name="Delete…")
    opener.focus()

    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_nothing_moves_for_whoever_asks_for_less_motion(shared: ServerProcess, window: Windows, tmp_path: Path) -> None:
    allowance = Allowance(tmp_path, 1)
    job = start(shared, "count", lines=2, allowed=str(allowance.path))
    moving = "document.getAnimations().filter(each => each.playState === 'running').length"
    lively = window(shared.url).open(f"jobs/{job}")
    calm = window(shared.url, reduced_motion="reduce").open(f"jobs/{job}")
    state(lively, "Running")
    state(calm, "Running")

    assert lively.evaluate(moving) > 0
    assert calm.evaluate(moving) == 0
    allowance.raise_to(2)


def test_single_keys_can_be_turned_off_and_stay_off(shared: ServerProcess, window: Windows) -> None:
    opened = window(shared.url)
    page = opened.open("")

    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_label("Single keys act").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.reload()
    page.wait_for_selector("h1")
    page.keyboard.press("?")

    expect(page).to_have_url(f"{shared.url}/")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_an_end_is_said_to_those_who_do_not_see_it(shared: ServerProcess, window: Windows) -> None:
    job = start(shared, "broken")
    shared.until(job, "failed")
    page = window(shared.url).open(f"jobs/{job}")

    page.get_by_role("button", name="Retry").click()

    expect(page.get_by_role("status").filter(has_text="It is queued again")).to_be_visible()
