"""The dashboard as a part of somebody else's application, below a path of theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.http.application import create
from tests.ui.conftest import PATIENCE, Window
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("ui")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Penstock]:
    made = Penstock(f"sqlite:///{tmp_path}/jobs.db", migrate=True)
    made.job("echo")(lambda value: value)
    made.definitions.register()
    yield made
    made.close()


@pytest.fixture
def home(app: Penstock) -> Iterator[str]:
    outer = Starlette(routes=[Mount("/ops/penstock", app=create(app))])
    server = uvicorn.Server(uvicorn.Config(outer, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, "the server answers")
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/ops/penstock"
    server.should_exit = True
    thread.join()


def test_below_any_path_pages_links_and_live_updates_work(
    app: Penstock, home: str, window: Callable[..., Window]
) -> None:
    job = app.enqueue("echo", {"value": 1})
    page = window(home).open(f"jobs/{job.id}?tab=data")

    expect(page.get_by_role("region", name="parameters")).to_contain_text('"value": 1')
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    expect(page).to_have_url(f"{home}/jobs")
    expect(page.get_by_title(f"Copy {job.id}")).to_be_visible()
    expect(page.get_by_label("Live updates: live")).to_be_visible(timeout=PATIENCE)
    other = app.enqueue("echo", {"value": 2})
    expect(page.get_by_title(f"Copy {other.id}")).to_be_visible(timeout=PATIENCE)
    page.reload()
    expect(page.get_by_title(f"Copy {other.id}")).to_be_visible(timeout=PATIENCE)
