"""Workers, webhooks, alerts, settings and signing in, in a real Chromium: what is shown, and what can be done there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.background.receivers import Receiver
from tests.http.servers import ServerProcess, serve
from tests.ui.conftest import APPLICATION, PATIENCE, Window, violations
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("ui")
Windows = Callable[..., Window]
REFUSED = ("status of 4",)
"""What the browser says of answers that the server is meant to refuse."""
TABS = [
    "workers?tab=configuration",
    "webhooks?tab=deliveries",
    "alerts?tab=history",
    "settings?tab=tokens",
    "settings?tab=audit",
    "settings?tab=about",
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def sending(stage: Stage, receiver: Receiver) -> ServerProcess:
    """A server that may send to a receiver on this host."""
    allowed = {"ALLOW_HTTP": "true", "ALLOWED_NETWORKS": "127.0.0.0/8", "PORTS": str(receiver.port), "POLL": "0.1"}
    return serve(
        stage, target=APPLICATION, environment={f"PENSTOCK_WEBHOOKS_{name}": text for name, text in allowed.items()}
    )


def said(page: Page, text: str) -> None:
    """Wait until a page says something."""
    expect(page.get_by_text(text).first).to_be_visible(timeout=PATIENCE)


def pressed(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def kept(page: Page, label: str) -> str:
    """The secret that is shown once; it is closed only by saying that it is kept."""
    page.keyboard.press("Escape")
    secret = page.get_by_role("dialog").get_by_label(label, exact=True).input_value()
    page.get_by_label("I have kept it").check()
    pressed(page, "Done")
    return secret


def enter_code(page: Page, server: ServerProcess) -> None:
    """Show the setup code that a server without tokens printed at its start."""
    page.get_by_label("Setup code").fill(server.setup_code or "")
    pressed(page, "Use the code")
    expect(page.get_by_label("Setup code")).to_have_count(0)


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token", exact=True).fill(token)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_tab_is_accessible_and_loses_nothing_to_the_side(
    sending: ServerProcess, receiver: Receiver, window: Windows, theme: str
) -> None:
    made = sending.post("/v1/webhooks", {"url": receiver.url("/hook")})["webhookId"]
    sent = sending.post(f"/v1/webhooks/{made}/test")["deliveryId"]
    worker = sending.get("/v1/workers")["workers"][0]["workerId"]
    opened = window(sending.url, color_scheme=theme)
    page = opened.open()

    found = {}
    for path in [*TABS, f"webhooks/{made}", f"webhooks?tab=deliveries&delivery={sent}", f"workers?worker={worker}"]:
        page.set_viewport_size({"width": 1280, "height": 860})
        page.goto(opened.home + path)
        page.wait_for_selector("main .card, main table, main .empty")
        found[path] = violations(page)
        page.set_viewport_size({"width": 320, "height": 640})
        if page.evaluate("document.documentElement.scrollWidth") > 320:
            found[path].append("it is wider than the window")
    assert {path: what for path, what in found.items() if what} == {}


def test_a_worker_that_is_lost_stays_shown(stage: Stage, server: ServerProcess, window: Windows) -> None:
    other = serve(stage, "--name", "second", target=APPLICATION)
    page = window(server.url).open("workers")
    expect(page.get_by_role("row").filter(has_text="second")).to_contain_text("Live", timeout=PATIENCE)

    other.kill()

    expect(page.get_by_role("row").filter(has_text="second")).to_contain_text("Lost", timeout=PATIENCE)
    page.get_by_role("button", name="second").click()
    said(page, "Its lease ended without a word.")


def test_the_configuration_of_workers_is_changed_exactly_and_not_over_somebody_elses(
    server: ServerProcess, window: Windows
) -> None:
    page = window(server.url, forgiven=REFUSED).open("workers?tab=configuration")
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    enter_code(page, server)

    page.get_by_label("Slots", exact=True).fill("3")
    page.get_by_label("Lease").fill("soon")
    said(page, "It must be a number.")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_label("Lease").fill("")
    page.get_by_label("Settings", exact=True).fill('{"n": 9007199254740993}')
    pressed(page, "Save")
    said(page, "Revision 1")
    assert '"n":9007199254740993' in server.request("GET", "/v1/worker/config").text.replace(" ", "")
    page.get_by_label("Slots", exact=True).fill("4")
    server.request("PATCH", "/v1/worker/config", json={"slots": 2})
    pressed(page, "Save")
    said(page, "Another user has changed the configuration.")
    pressed(page, "Load the stored version")

    expect(page.get_by_label("Slots", exact=True)).to_have_value("2")
    assert server.get("/v1/worker/config")["slots"] == 2


def test_disabled_workers_and_a_pause_raise_alerts_that_lead_to_what_ends_them(
    server: ServerProcess, window: Windows
) -> None:
    page = window(server.url).open("workers?tab=configuration")
    enter_code(page, server)
    page.get_by_role("tab", name="Workers").click()
    pressed(page, "Take no more jobs…")
    pressed(page, "Take no more jobs")
    said(page, "Workers take no jobs")
    pressed(page, "Pause everything…")
    page.get_by_label("Reason").fill("the shop moves")
    pressed(page, "Pause")
    said(page, "Everything is paused by local: the shop moves")

    page.keyboard.press("g")
    page.keyboard.press("a")
    alert = page.get_by_role("listitem").filter(has_text="disabled them")
    alert.get_by_role("link", name="Configuration").click()
    pressed(page, "Take jobs again")
    pressed(page, "Resume everything")

    expect(page.get_by_role("button", name="Pause everything…")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("a")
    said(page, "Nothing needs attention")
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("row").filter(has_text="Cleared")).to_have_count(2, timeout=PATIENCE)


def test_an_endpoint_is_made_tried_changed_rotated_and_deleted(
    sending: ServerProcess, receiver: Receiver, window: Windows
) -> None:
    page = window(sending.url, forgiven=REFUSED).open("webhooks")

    page.keyboard.press("n")
    page.get_by_label("Address").fill(receiver.url("/hook"))
    page.get_by_label("Others").fill("job.nonsense")
    pressed(page, "Add endpoint")
    said(page, "There is no event 'job.nonsense'.")
    page.get_by_label("Others").fill("job.snoozed")
    pressed(page, "Add endpoint")
    first = kept(page, "Secret")
    expect(page.get_by_role("heading", name=receiver.url("/hook"))).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_role("complementary")).to_contain_text("Try 1: 200", timeout=PATIENCE)
    page.keyboard.press("r")
    expect(page.get_by_role("complementary")).to_contain_text("Try 2: 200", timeout=PATIENCE)
    page.keyboard.press("Escape")
    (endpoint,) = sending.get("/v1/webhooks")["webhooks"]
    page.keyboard.press("e")
    sending.request("PATCH", f"/v1/webhooks/{endpoint['webhookId']}", json={"description": "by another"})
    page.get_by_label("Description").fill("by me")
    pressed(page, "Save")
    said(page, "Another user has changed this endpoint.")
    pressed(page, "Load the stored version")
    expect(page.get_by_label("Description")).to_have_value("by another")
    pressed(page, "Go back")
    pressed(page, "Rotate secret…")
    pressed(page, "Rotate")

    assert kept(page, "Secret") != first
    assert endpoint["events"][-1] == "job.snoozed"
    pressed(page, "Delete…")
    pressed(page, "Delete the endpoint")
    said(page, "No webhooks yet")


def test_the_first_token_closes_the_server_without_locking_its_maker_out(
    server: ServerProcess, window: Windows
) -> None:
    page = window(server.url, forgiven=REFUSED).open("settings?tab=tokens")
    expect(page.get_by_role("button", name="Make a token…")).to_have_count(0)
    page.get_by_label("Setup code").fill("AAAA-BBBB-CCCC")
    pressed(page, "Use the code")
    expect(page.get_by_role("alert")).to_contain_text("not the setup code")
    enter_code(page, server)

    pressed(page, "Make a token…")
    said(page, "This is the first token.")
    page.get_by_label("Name").fill("ada")
    pressed(page, "Make the token")
    token = kept(page, "Token")

    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="ada")).to_contain_text("Super admin")
    assert server.request("GET", "/v1/jobs").status_code == 401
    assert server.get("/v1/jobs", headers={"Authorization": f"Bearer {token}"})["jobs"] == []
    page.get_by_role("tab", name="Audit").click()
    expect(page.get_by_role("row").filter(has_text="token.create")).to_contain_text("local")


def test_a_session_that_ends_leads_to_signing_in_and_back_to_where_one_was(
    stage: Stage, server: ServerProcess, window: Windows
) -> None:
    admin = stage.app.tokens.create("ada", "super_admin", by="test").text
    reader = stage.app.tokens.create("reader", "viewer", by="test")
    page = window(server.url, forgiven=REFUSED).open("jobs?status=failed")
    sign_in(page, "pst_wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    sign_in(page, reader.text)
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()

    stage.app.tokens.revoke(reader.token.id, by="test")

    said(page, "Your session has ended.")
    sign_in(page, admin)
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/jobs?status=failed")
    expect(page.get_by_label("Live updates: live")).to_be_visible(timeout=PATIENCE)


def test_whoever_may_only_read_can_change_nothing_on_these_pages(
    stage: Stage, sending: ServerProcess, receiver: Receiver, window: Windows
) -> None:
    made = sending.post("/v1/webhooks", {"url": receiver.url("/hook")})["webhookId"]
    opened = window(sending.url)
    page = opened.open("settings")
    expect(page.get_by_role("tab")).to_have_text(["Preferences", "Tokens", "Audit", "About"])
    token = stage.app.tokens.create("reader", "viewer", by="test").text

    page = opened.open("settings")
    sign_in(page, token)
    expect(page.get_by_role("tab")).to_have_text(["Preferences", "Audit", "About"])
    for path, shown in (("workers?tab=configuration", "How they work"), (f"webhooks/{made}", receiver.url("/"))):
        page.goto(opened.home + path)
        expect(page.get_by_role("heading", name=shown)).to_be_visible()
        expect(page.get_by_role("group", name="Actions").get_by_role("button")).to_have_count(0)
        expect(page.get_by_role("button", name="Save")).to_have_count(0)


def test_preferences_hold_at_once_and_after_a_reload(server: ServerProcess, window: Windows) -> None:
    page = window(server.url, timezone_id="Asia/Tokyo").open("settings")
    page.get_by_label("Dark").check()
    page.get_by_label("Compact").check()
    page.get_by_label("UTC").check()
    page.get_by_label("Single keys act").uncheck()
    said(page, "UTC on the server")

    page.reload()
    page.wait_for_selector("h1")

    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    expect(root).to_have_attribute("data-density", "compact")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(f"{server.url}/settings")
