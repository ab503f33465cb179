"""The address of a store: enough for another process to open the same one, and no password for those who look."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.storage.sqlite.store import SqliteStore
from tests.applications import NewApp
from tests.definitions import shapes


def test_another_application_opens_the_same_store_by_the_address(new_app: NewApp) -> None:
    app = new_app()
    job = app.job("work")(shapes.plain).enqueue("a")

    assert app.address is not None
    told = json.loads(json.dumps(app.address))
    other = Penstock(told.pop("store"), **told)

    assert other.jobs.read(job.id).params == {"to": "a"}
    other.close()


def test_the_address_of_a_file_holds_wherever_the_process_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a %41b?").mkdir()
    monkeypatch.chdir(tmp_path / "a %41b?")
    app = Penstock("sqlite:///jobs.db")
    job = app.job("work")(shapes.plain).enqueue("a")
    monkeypatch.chdir("/")

    assert app.address is not None
    other = Penstock(app.address["store"])

    assert other.jobs.read(job.id).id == job.id
    app.close()
    other.close()


@pytest.mark.parametrize(
    "store", ["sqlite://", "sqlite:///:memory:", SqliteStore(":memory:")], ids=["empty", "named", "ready"]
)
def test_what_no_other_process_can_open_has_no_address(store: str | SqliteStore) -> None:
    assert Penstock(store).address is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:pa55word@host/db",
        "postgresql://me:pa55word@host:5432/db?schema=x",
        "postgresql:///db?user=me&password=pa55word",
        "postgresql:///db?sslpassword=pa55word&user=me",
    ],
)
def test_a_printed_address_shows_no_password(url: str) -> None:
    app = Penstock(url, schema="mine", pooler=True)

    assert app.address == {"store": url, "schema": "mine", "pooler": True, "migrate": False}
    for shown in (repr(app.address), str(app.address), f"{app.address}", repr(app)):
        assert "pa55word" not in shown
    assert "/db" in repr(app.address)
