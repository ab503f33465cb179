"""The dashboard's files: which address gives what, to whom, and how long it may be kept."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.http import dashboard
from penstock.http.application import create

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small dashboard in place of the real one, which need not be built."""
    folder = tmp_path / "_ui"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<html><head><script src="./assets/a-1.js"></script></head></html>')
    (folder / "theme.js").write_text("1")
    (folder / "assets" / "a-1.js").write_text("let a = 1;")
    (folder / "assets" / "a-1.js.gz").write_bytes(gzip.compress(b"let a = 1;"))
    monkeypatch.setattr(dashboard.Dashboard.__init__, "__defaults__", (folder,))
    return folder


@pytest.fixture
async def client(built: Path) -> AsyncIterator[httpx2.AsyncClient]:
    web = create(Penstock("sqlite://"))
    outer = Starlette(routes=[Mount("/ops/penstock", app=web), Mount("/", app=web)])
    transport = httpx2.ASGITransport(outer, client=("127.0.0.1", 5))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7367") as made:
        yield made


async def test_the_page_is_at_the_root_with_a_strict_policy_and_is_asked_for_anew(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/")

    assert answer.status_code == 200
    assert '<head><base href="/">' in answer.text
    assert answer.headers["content-security-policy"] == dashboard.POLICY
    assert "unsafe" not in dashboard.POLICY
    assert answer.headers["cache-control"] == "no-cache"
    again = await client.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/jobs", "/jobs/0190", "/definitions/a%2Fb.c", "/schedules/%F0%9F%8C%B1?tab=x"])
async def test_every_other_address_gives_the_page_to_browsers_and_not_found_to_programs(
    client: httpx2.AsyncClient, path: str
) -> None:
    page = await client.get(path, headers=HTML)
    program = await client.get(path)

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (program.status_code, program.json()["error"]["code"]) == (404, "not_found")


async def test_the_api_never_answers_with_the_page(client: httpx2.AsyncClient) -> None:
    unknown = await client.get("/v1/nothing", headers=HTML)
    wrong = await client.put("/v1/jobs", headers=HTML)
    posted = await client.post("/jobs", headers=HTML)

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert (posted.status_code, posted.json()["error"]["code"]) == (404, "not_found")


async def test_below_a_path_the_page_says_so_and_finds_its_files(client: httpx2.AsyncClient) -> None:
    page = await client.get("/ops/penstock/jobs/0190", headers=HTML)
    file = await client.get("/ops/penstock/assets/a-1.js")

    assert '<base href="/ops/penstock/">' in page.text
    assert file.text == "let a = 1;"


async def test_hashed_files_are_kept_for_ever_and_others_are_not(client: httpx2.AsyncClient) -> None:
    hashed = await client.get("/assets/a-1.js")
    plain = await client.get("/theme.js")

    assert hashed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["cache-control"] == "no-cache"
    assert hashed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert hashed.headers["x-content-type-options"] == "nosniff"


async def test_a_packed_file_goes_to_those_who_take_it(client: httpx2.AsyncClient) -> None:
    packed = await client.get("/assets/a-1.js", headers={"Accept-Encoding": "gzip, br"})
    plain = await client.get("/assets/a-1.js", headers={"Accept-Encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text == "let a = 1;"
    assert packed.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "path", ["/assets/../index.html", "/assets/%2e%2e/%2e%2e/pages.py", "/assets/a-1.js.gz", "/assets/"]
)
async def test_nothing_but_the_built_files_can_be_read(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Accept": "*/*"})

    assert answer.status_code == 404


async def test_a_new_build_is_seen_without_a_restart(client: httpx2.AsyncClient, built: Path) -> None:
    await client.get("/")
    (built / "index.html").write_text("<html><head></head>built anew</html>")

    answer = await client.get("/")

    assert "built anew" in answer.text


async def test_without_a_build_the_page_says_what_to_do(client: httpx2.AsyncClient, built: Path) -> None:
    (built / "index.html").unlink()

    answer = await client.get("/jobs", headers=HTML)

    assert answer.status_code == 200
    assert "make ui" in answer.text
    assert "<script" not in answer.text
