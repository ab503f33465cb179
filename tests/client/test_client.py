"""`penstock.Client`: the library's calls through a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import penstock
from penstock import (
    Client,
    Conflict,
    Forbidden,
    IdempotencyConflict,
    InvalidInput,
    InvalidPayload,
    JobHandle,
    NotFound,
    Penstock,
    StoreUnavailable,
    Unauthenticated,
    WaitTimeout,
)
from penstock.domain.attempt import LogLine
from penstock.domain.definition import Definition
from penstock.domain.outcome import Failure
from penstock.domain.states import Status
from penstock.storage.commands import admin
from penstock.storage.commands import jobs as job_verbs
from tests.applications import NewApp
from tests.client.calls import Calls
from tests.http.streams import StreamServer, define
from tests.operations.between import Between
from tests.operations.hand import Hand
from tests.waiting import wait_until

PATIENCE = 20.0
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def app(new_app: NewApp) -> Penstock:
    made = new_app()
    define(made)
    return made


@pytest.fixture
def server(app: Penstock, new_app: NewApp) -> Iterator[StreamServer]:
    made = StreamServer(new_app())
    yield made
    made.stop()


@pytest.fixture
def between(server: StreamServer) -> Iterator[Between]:
    made = Between(server.port)
    yield made
    made.close()


@pytest.fixture
def client(server: StreamServer) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


@pytest.fixture(params=["plain", "async"])
def calls(request: pytest.FixtureRequest, client: Client) -> Calls:
    return Calls(client, request.param == "async")


def test_importing_the_library_does_not_import_the_http_client() -> None:
    code = "import sys, penstock; penstock.Client; assert 'httpx2' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert "Client" in penstock.__all__


def test_a_job_is_started_read_and_found_with_all_that_it_was_given(calls: Calls, app: Penstock) -> None:
    params = {"text": "ä\u2028", "password": "hidden-in-the-store"}
    made = calls.enqueue(
        "work", params, delay=3600, priority=3, max_attempts=7, tags=["a", "b"], reference=("order", "9"),
        concurrency_key="k", unique="once",
    )  # fmt: skip

    assert (made.created, made.status) == (True, Status.SCHEDULED)
    job = calls.read_job(made.id)
    here = app.read_job(made.id)
    for name in ("id", "definition_key", "definition_version", "status", "priority", "max_attempts",
                 "tags", "reference_type", "reference_id", "concurrency_key", "unique", "created_at", "run_at",
                 "actor"):  # fmt: skip
        assert getattr(job, name) == getattr(here, name), name
    assert job.params["text"] == params["text"]
    assert "hidden-in-the-store" not in job.params_text
    assert [each.id for each in calls.jobs(tag="a", status=["scheduled"]).jobs] == [made.id]
    assert calls.jobs(tag="c").jobs == []
    again = calls.enqueue("work", params, unique="once")
    assert (again.id, again.created) == (made.id, False)


def test_pages_are_gone_through_to_the_end(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = client.enqueue_many([client.order("work", {"text": str(number)}) for number in range(5)])
    monkeypatch.setattr("penstock.domain.job_list.PAGE", 2)

    async def listed() -> list[str]:
        async with client:
            return [each.id async for each in client.aiter_jobs(definition_key="work")]

    assert {each.id for each in client.iter_jobs(definition_key="work")} == {each.id for each in made}
    assert len(asyncio.run(listed())) == 5


def test_many_jobs_are_made_all_or_none(calls: Calls, app: Penstock) -> None:
    order = calls.client.order
    with pytest.raises(InvalidPayload, match=r"jobs\[1\]"):
        calls.enqueue_many([order("work", {"text": "good"}), order("work", {"text": 5})])
    assert app.jobs().jobs == []

    made = calls.enqueue_many([order("work", {"text": "a"}), order("other", {"text": "b"})])

    assert [app.read_job(each.id).definition_key for each in made] == ["work", "other"]
    assert calls.enqueue_many([]) == []


def test_what_happened_to_a_job_is_read(calls: Calls, app: Penstock) -> None:
    job = calls.enqueue("work", {"text": "x"})
    hand = Hand(app)
    claimed = hand.claim_one(job.id)
    line = LogLine("warning", "half way", details='{"n":1}', duration=1500)
    app.store.run(job_verbs.save_logs(hand.held(claimed), [line]))
    hand.end(claimed, hand.failing(Failure("ValueError", "no", "trace", "print")))

    (attempt,) = calls.attempts(job.id)
    assert attempt == app.attempts(job.id)[0]
    assert [(phase.name, phase.status) for phase in attempt.phases] == [("run", "failed")]
    assert calls.logs(job.id, level="info") == app.logs(job.id)
    assert calls.logs(job.id, level="error") == []
    assert calls.phases(job.id) == app.phases(job.id)
    assert [(each.name, each.status, each.error) for each in app.phases(job.id)] == [("run", "failed", "no")]
    assert [each.code for each in calls.why(job.id)] == ["ended"]
    assert calls.why(job.id) == app.why(job.id)


def test_a_failed_job_is_retried_rerun_and_deleted(calls: Calls, app: Penstock) -> None:
    job = calls.enqueue("work", {"text": "x"})
    Hand(app).fail(job.id, Failure("ValueError", "no", "", ""))

    assert calls.retry_job(job.id) is Status.QUEUED
    assert calls.cancel_job(job.id) is Status.CANCELLED
    assert calls.cancel_job(job.id) is Status.CANCELLED
    other = calls.rerun_job(job.id, {"text": "y"}, priority=2)
    assert (app.read_job(other.id).rerun_of, app.read_job(other.id).priority) == (job.id, 2)
    calls.delete_job(job.id)
    with pytest.raises(NotFound):
        calls.read_job(job.id)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_review_is_decided(calls: Calls, app: Penstock, verb: str) -> None:
    job = calls.enqueue("work", {"text": "x"})
    Hand(app).ask_review(job.id, '"draft"')

    options = {"result": "final"} if verb == "approve" else {}
    status = getattr(calls, f"{verb}_job")(job.id, note="seen", **options)

    assert status is (Status.SUCCEEDED if verb == "approve" else Status.FAILED)
    assert app.read_job(job.id).result == ("final" if verb == "approve" else app.read_job(job.id).result)


def test_many_jobs_are_changed_by_filter(calls: Calls, app: Penstock) -> None:
    for number in range(3):
        app.enqueue("work", {"text": str(number)}, tags=["old"])

    counted = calls.bulk("cancel", tag="old", dry_run=True)
    assert {each.status for each in app.jobs().jobs} == {Status.QUEUED}
    done = calls.bulk("cancel", tag="old")

    assert counted == done
    assert (done.matched, done.changed, done.skipped) == (3, 3, 0)
    with pytest.raises(InvalidInput):
        calls.bulk("cancel")


def test_a_definition_is_retired_and_removed(calls: Calls, app: Penstock) -> None:
    app.store.run(admin.register([Definition("gone", 1), Definition("gone", 2)]))

    calls.retire_definition("gone")
    with pytest.raises(Conflict, match="retired"):
        calls.enqueue("gone")
    calls.remove_definition("gone", version=1)
    calls.remove_definition("gone")

    assert "gone" not in {row.definition.key for row in app.definitions_known()}
    with pytest.raises(NotFound):
        calls.remove_definition("gone")


def test_filters_and_times_mean_what_they_mean_to_the_library(calls: Calls, app: Penstock) -> None:
    job = app.enqueue("work", {"text": "x"})
    naive = datetime(2027, 1, 15, 8)

    assert [each.id for each in calls.jobs(job_id=[job.id]).jobs] == [job.id]
    assert calls.jobs(job_id=[]).jobs == app.jobs(job_id=[]).jobs == []
    wrong: list[dict[str, Any]] = [{"status": []}, {"created_from": naive}, {"parent_id": "nobody"}]
    for asked in wrong:
        for jobs in (app.jobs, calls.jobs):
            with pytest.raises(InvalidInput):
                jobs(**asked)
    for enqueue in (app.enqueue, calls.enqueue):
        with pytest.raises(InvalidInput, match="time zone"):
            enqueue("work", {"text": "x"}, run_at=naive)


def test_handles_do_through_the_server_what_they_do_through_the_library(client: Client, app: Penstock) -> None:
    handle = client.enqueue("work", {"text": "x"})
    hand = Hand(app)

    assert [each.code for each in handle.why()] == ["behind"]
    hand.ask_review(handle.id)
    assert handle.approve(note="ok") is Status.SUCCEEDED
    assert handle.result() is None
    again = handle.rerun({"text": "y"})
    assert again.cancel() is Status.CANCELLED
    assert again.retry() is Status.QUEUED
    assert client.get(again.id).job.definition_key == "work"
    with pytest.raises(InvalidInput, match="token"):
        again.retry(by="somebody")


def test_whoever_waits_is_told_by_the_stream(calls: Calls, app: Penstock, server: StreamServer) -> None:
    job = calls.enqueue("work", {"text": "x"})
    waiting = Waiting(calls, job.id)
    wait_until(lambda: server.streams.count, "the client listens", PATIENCE)

    Hand(app).succeed(job.id, '{"n": 12345678901234567}')

    found = waiting.done()
    assert (found.status, found.result) == (Status.SUCCEEDED, {"n": 12345678901234567})


def test_a_text_with_separators_of_lines_does_not_hide_the_end(
    client: Client, app: Penstock, server: StreamServer
) -> None:
    job = client.enqueue("work", {"text": "a\u2028b\x85c\u2029"})
    waiting = Waiting(Calls(client, False), job.id, None)
    wait_until(lambda: server.streams.count, "the client listens", PATIENCE)

    app.cancel_job(job.id)

    assert waiting.done().status is Status.CANCELLED


def test_whoever_waits_for_an_ended_job_has_its_answer_at_once(calls: Calls, app: Penstock) -> None:
    job = calls.enqueue("work", {"text": "x"})
    app.cancel_job(job.id)

    assert calls.wait_for(job.id, timeout=0).status is Status.CANCELLED


def test_a_wait_ends_with_its_time_and_the_job_goes_on(calls: Calls, app: Penstock) -> None:
    job = calls.enqueue("work", {"text": "x"}, delay=600)

    with pytest.raises(WaitTimeout, match="still scheduled"):
        calls.wait_for(job.id, timeout=0.3)

    assert app.read_job(job.id).status is Status.SCHEDULED


def test_a_wait_outlives_a_restart_of_the_server(
    calls: Calls, app: Penstock, new_app: NewApp, server: StreamServer
) -> None:
    job = calls.enqueue("work", {"text": "x"})
    waiting = Waiting(calls, job.id)
    wait_until(lambda: server.streams.count, "the client listens", PATIENCE)

    server.stop()
    Hand(app).succeed(job.id, "7")
    another = StreamServer(new_app(), port=server.port)

    try:
        assert waiting.done().result == 7
    finally:
        another.stop()


def test_a_job_that_is_deleted_while_somebody_waits_is_gone(calls: Calls, app: Penstock, server: StreamServer) -> None:
    job = calls.enqueue("work", {"text": "x"})
    waiting = Waiting(calls, job.id)
    wait_until(lambda: server.streams.count, "the client listens", PATIENCE)

    app.cancel_job(job.id)
    assert waiting.done().status is Status.CANCELLED
    app.delete_job(job.id)

    with pytest.raises(NotFound):
        calls.wait_for(job.id)


class Waiting(threading.Thread):
    """A wait in a thread of its own."""

    def __init__(self, calls: Calls, job_id: str, timeout: float | None = PATIENCE) -> None:
        super().__init__(daemon=True)
        self._calls, self._job_id, self._timeout = calls, job_id, timeout
        self._found: Any = None
        self.start()

    def run(self) -> None:
        try:
            self._found = self._calls.wait_for(self._job_id, timeout=self._timeout)
        except Exception as error:
            self._found = error

    def done(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "the wait does not end"
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_creation_whose_answer_was_lost_makes_one_job(between: Between, app: Penstock, asynchronous: bool) -> None:
    calls = Calls(Client(between.url), asynchronous)
    between.to_lose = 2

    job = calls.enqueue("work", {"text": "x"})

    assert between.handed_on == [b"POST /v1/jobs HTTP/1.1"] * 3
    assert [each.id for each in app.jobs().jobs] == [job.id]
    between.to_lose = 1
    made = calls.enqueue_many([calls.client.order("work", {"text": "a"}), calls.client.order("work", {"text": "b"})])
    assert len(app.jobs().jobs) == 1 + len(made)
    between.to_lose = 1
    again = calls.rerun_job(job.id)
    assert [each.id for each in app.jobs().jobs if each.rerun_of == job.id] == [again.id]
    calls.client.close()


def test_a_cancel_whose_answer_was_lost_has_cancelled(between: Between, app: Penstock) -> None:
    with Client(between.url) as client:
        job = client.enqueue("work", {"text": "x"})
        client.read_job(job.id)
        wait_until(lambda: len(between.handed_on) == 2, "the job was read")
        handed = between._asked

        def lose_the_cancel(request: bytes) -> bytes:
            if b"/cancel " in request and not any(b"/cancel " in each for each in between.handed_on):
                between.to_lose = 1
            return handed(request)

        between._asked = lose_the_cancel  # type: ignore[method-assign]

        assert client.cancel_job(job.id) is Status.CANCELLED

    assert sum(b"/cancel " in each for each in between.handed_on) == 2


def test_other_changes_are_not_sent_twice_when_nobody_knows_what_became_of_them(
    between: Between, app: Penstock
) -> None:
    with Client(between.url) as client:
        job = client.enqueue("work", {"text": "x"})
        app.cancel_job(job.id)
        between.to_lose = 1

        with pytest.raises(StoreUnavailable, match=between.url):
            client.retry_job(job.id)

        assert sum(b"/retry " in each for each in between.handed_on) == 1
        between.refusals = [(504, b"0")]
        with pytest.raises(StoreUnavailable, match="504"):
            client.retry_job(job.id)


def test_a_server_that_says_not_now_is_asked_again_when_it_wishes(between: Between, app: Penstock) -> None:
    between.refusals = [(503, b"1"), (429, b"0"), (502, b"")]
    begun = time.monotonic()

    with Client(between.url) as client:
        job = client.enqueue("work", {"text": "x"})

    assert time.monotonic() - begun >= 1.0
    assert [each.id for each in app.jobs().jobs] == [job.id]
    between.refusals = [(503, b"0")] * 2
    with Client(between.url, tries=2) as client, pytest.raises(StoreUnavailable, match="503"):
        client.read_job(job.id)


def test_a_server_that_is_not_there_is_named() -> None:
    with Client("http://127.0.0.1:1", tries=2) as client:
        with pytest.raises(StoreUnavailable, match=r"http://127\.0\.0\.1:1 does not answer"):
            client.enqueue("work", {"text": "x"})
        with pytest.raises(StoreUnavailable):
            client.wait_for(NOBODY, timeout=0.1)


def test_a_token_or_password_that_cannot_be_used_is_not_repeated(server: StreamServer, app: Penstock) -> None:
    text = app.create_token("looks", "viewer").text

    with Client(server.url, f"{text}\n") as client:
        assert client.jobs().jobs == []
    for token in ("pst_sesame\nopen", "pst_sesameü", ""):
        with pytest.raises(InvalidInput, match="token") as refused:
            Client(server.url, token)
        assert "sesame" not in str(refused.value)
    with Client("http://ann:sesame@127.0.0.1:1", tries=1) as client, pytest.raises(StoreUnavailable) as away:
        client.jobs()
    assert "sesame" not in str(away.value)


@pytest.mark.parametrize(
    "url",
    ["", "jobs.example.org", "ftp://jobs.example.org", "http://", None, "http://ann:sesame@[::1", "http://127.0.0.1:x",
     "http://127.0.0.1:99999", "http://jobs..example.org", "http://\udcff", "http://jobs.example.org\x7f"],
)  # fmt: skip
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInput, match="URL") as refused:
        Client(url)
    assert "sesame" not in str(refused.value)


def test_refusals_are_the_errors_of_the_library(calls: Calls, app: Penstock) -> None:
    job = calls.enqueue("work", {"text": "x"}, idempotency_key="once")

    with pytest.raises(NotFound, match=NOBODY) as missing:
        calls.get(NOBODY)
    assert (missing.value.kind, missing.value.name) == ("job", NOBODY)
    with pytest.raises(NotFound) as unknown:
        calls.enqueue("nothing", {})
    assert unknown.value.kind == "definition"
    with pytest.raises(InvalidPayload) as wrong:
        calls.enqueue("work", {"text": 5})
    assert wrong.value.path == "/text"
    with pytest.raises(IdempotencyConflict) as known:
        calls.enqueue("work", {"text": "y"}, idempotency_key="once")
    assert known.value.job_id == job.id
    with pytest.raises(Conflict) as queued:
        calls.retry_job(job.id)
    assert type(queued.value) is Conflict
    for bad in ({"priority": 999}, {"tags": ["\x00"]}, {"delay": -1}, {"colour": "red"}, {"connection": object()}):
        with pytest.raises(InvalidInput):
            calls.enqueue("work", {"text": "x"}, **bad)
    with pytest.raises(InvalidInput):
        calls.jobs(limit=0)
    with pytest.raises(InvalidInput):
        calls.read_job("../tokens")


def test_tokens_open_what_their_role_may(server: StreamServer, app: Penstock) -> None:
    viewer = app.create_token("reader", "viewer").text
    # The server looks once a second whether there are tokens.
    wait_until(lambda: _is_closed(server), "the server has seen that there is a token", PATIENCE)

    with Client(server.url) as nobody, pytest.raises(Unauthenticated):
        nobody.jobs()
    with Client(server.url, viewer) as client:
        assert client.jobs().jobs == []
        with pytest.raises(Forbidden):
            client.enqueue("work", {"text": "x"})


def _is_closed(server: StreamServer) -> bool:
    with Client(server.url) as client:
        try:
            client.jobs()
        except Unauthenticated:
            return True
    return False


def test_a_handle_is_typed_as_the_librarys_own(client: Client) -> None:
    assert isinstance(client.enqueue("work", {"text": "x"}), JobHandle)
