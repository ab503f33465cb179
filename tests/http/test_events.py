"""Events as a list, what `Accept` chooses, and which requests are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain.event import Event
from penstock.http.errors import RequestError
from penstock.http.headers import wants_stream
from penstock.http.schemas.monitoring import EventList
from penstock.http.streaming import sse
from tests.http.asgi_api import WebApi, refused, told
from tests.http.streams import define, ended_job, enqueue, forget_a_job
from tests.operations.hand import Hand

UNKNOWN = "0199a000-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def definitions(app: Penstock) -> None:
    define(app)


class TestList:
    def test_it_begins_with_the_oldest_event_and_goes_on_by_its_cursor(self, site: WebApi) -> None:
        jobs = [enqueue(site.app) for _ in range(5)]

        first = told(site.get("/v1/events?limit=3"))
        second = told(site.get("/v1/events", params={"limit": 3, "after": first["nextCursor"]}))
        jobs.append(enqueue(site.app))
        third = told(site.get("/v1/events", params={"after": second["nextCursor"]}))

        assert [each["jobId"] for page in (first, second, third) for each in page["events"]] == jobs
        assert [page["more"] for page in (first, second, third)] == [True, False, False]

    def test_each_event_has_its_job_as_it_is_now(self, site: WebApi) -> None:
        job = ended_job(site.app)

        answer = site.get("/v1/events")

        EventList.model_validate_json(answer.text)
        first, second = told(answer)["events"]
        assert (first["type"], second["type"]) == ("job.enqueued", "job.cancelled")
        assert first["job"] == second["job"]
        assert (first["job"]["jobId"], first["job"]["status"], first["deletedJobId"]) == (job, "cancelled", None)

    def test_endings_tell_the_attempt_and_how_long_it_took(self, site: WebApi) -> None:
        job = enqueue(site.app)
        Hand(site.app).succeed(job)

        events = told(site.get(f"/v1/jobs/{job}/events"))["events"]

        assert [(each["type"], each["attempt"]) for each in events] == [
            ("job.enqueued", None), ("job.started", 1), ("job.succeeded", 1),
        ]  # fmt: skip
        assert [each["duration"] for each in events] == [None, None, events[-1]["job"]["duration"]]
        assert events == [each for each in told(site.get("/v1/events"))["events"] if each["jobId"] == job]

    def test_a_job_that_is_gone_is_named(self, site: WebApi) -> None:
        job = ended_job(site.app)
        site.app.jobs.delete(job)

        answer = site.get("/v1/events")

        EventList.model_validate_json(answer.text)
        events = told(answer)["events"]
        assert [each["type"] for each in events] == ["job.enqueued", "job.cancelled", "job.deleted"]
        assert {(each["job"], each["deletedJobId"]) for each in events} == {(None, job)}

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("type=job.cancelled", ["work", "other"]),
            ("type=job.cancelled&definitionKey=other", ["other"]),
            ("type=job.cancelled&type=job.enqueued&definitionKey=work", ["work", "work"]),
            ("type=worker.*", []),
            ("definitionKey=nobody", []),
        ],
    )
    def test_it_can_be_narrowed(self, site: WebApi, query: str, expected: list[str]) -> None:
        for key in ("work", "other"):
            site.app.jobs.cancel(enqueue(site.app, key))

        events = told(site.get(f"/v1/events?{query}"))["events"]

        assert [each["job"]["definitionKey"] for each in events] == expected

    def test_a_narrow_list_goes_on_where_it_was_cut(self, site: WebApi) -> None:
        jobs = [ended_job(site.app) for _ in range(5)]
        found: list[str] = []
        cursor = "origin"

        for _ in range(3):
            page = told(site.get("/v1/events", params={"type": "job.cancelled", "limit": 2, "after": cursor}))
            found += [each["jobId"] for each in page["events"]]
            cursor = page["nextCursor"]

        assert found == jobs
        assert told(site.get("/v1/events", params={"after": cursor}))["more"] is False

    def test_events_of_some_jobs_are_found(self, site: WebApi) -> None:
        jobs = [enqueue(site.app) for _ in range(3)]

        events = told(site.get("/v1/events", params={"jobId": [jobs[0], jobs[2].upper()]}))["events"]

        assert [each["jobId"] for each in events] == [jobs[0], jobs[2]]

    def test_a_cursor_that_is_too_old_is_gone(self, site: WebApi) -> None:
        cursor = told(site.get("/v1/events"))["nextCursor"]
        forget_a_job(site.app)

        refused(site.get("/v1/events", params={"after": cursor}), 410, "feed_gone")

    def test_one_job_has_a_list_of_its_own(self, site: WebApi) -> None:
        job = ended_job(site.app)
        enqueue(site.app)

        first = told(site.get(f"/v1/jobs/{job}/events?limit=1"))
        rest = told(site.get(f"/v1/jobs/{job.upper()}/events?after={first['nextCursor']}"))
        narrowed = told(site.get(f"/v1/jobs/{job}/events?type=job.cancelled"))

        assert first["nextCursor"] == str(first["events"][0]["seq"])
        assert [each["type"] for each in first["events"] + rest["events"]] == ["job.enqueued", "job.cancelled"]
        assert narrowed["events"] == rest["events"]

    def test_secret_parameters_are_masked(self, site: WebApi) -> None:
        site.app.enqueue("work", {"text": "x", "password": "hunter2"})

        assert "hunter2" not in site.get("/v1/events").text


class TestRefusals:
    @pytest.mark.parametrize("cursor", ["-1", "5", "abc", "0@", "1@2@3", "0@9:1:", "9" * 30, "0@5/4", " "])
    @pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
    def test_what_is_no_cursor_is_malformed(self, site: WebApi, cursor: str, accept: str) -> None:
        for how in ({"params": {"after": cursor}}, {"headers": {"Last-Event-ID": cursor}}):
            if not cursor.strip() and "headers" in how:
                continue
            options: dict[str, Any] = {**how, "headers": {"Accept": accept, **how.get("headers", {})}}
            refused(site.get("/v1/events", **options), 400, "malformed")

    def test_a_cursor_of_another_kind_of_store_is_malformed(self, site: WebApi) -> None:
        foreign = "0@1:1:" if site.app.store.dialect == "sqlite" else "0@1"

        for accept in ("application/json", "text/event-stream"):
            answer = site.get("/v1/events", params={"after": foreign}, headers={"Accept": accept})
            refused(answer, 400, "malformed")

    @pytest.mark.parametrize("cursor", ["-1", "abc", "0@5", "9" * 19, "1.0"])
    def test_what_is_no_number_is_no_cursor_of_a_job(self, site: WebApi, cursor: str) -> None:
        job = enqueue(site.app)

        for accept in ("application/json", "text/event-stream"):
            answer = site.get(f"/v1/jobs/{job}/events", params={"after": cursor}, headers={"Accept": accept})
            refused(answer, 400, "malformed")

    @pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
    def test_a_job_that_never_was_has_no_events(self, site: WebApi, accept: str) -> None:
        refused(site.get(f"/v1/jobs/{UNKNOWN}/events", headers={"Accept": accept}), 404, "not_found")

    @pytest.mark.parametrize(
        ("query", "accept"),
        [
            ("type=job.nonsense", "application/json"),
            ("type=", "application/json"),
            ("type=*.failed", "text/event-stream"),
            ("jobId=5", "application/json"),
            ("limit=0", "application/json"),
            ("limit=501", "application/json"),
            ("limit=5", "text/event-stream"),
            ("snapshot=true", "application/json"),
            ("snapshot=yes", "text/event-stream"),
            ("snapshot=true&after=origin", "text/event-stream"),
            ("nonsense=1", "application/json"),
        ],
    )
    def test_a_wrong_query_is_refused(self, site: WebApi, query: str, accept: str) -> None:
        refused(site.get(f"/v1/events?{query}", headers={"Accept": accept}), 422, "invalid_request")

    @pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/json;q=0", "nonsense"])
    def test_there_is_no_other_form(self, site: WebApi, accept: str) -> None:
        job = enqueue(site.app)

        for path in ("/v1/events", f"/v1/jobs/{job}/events"):
            refused(site.get(path, headers={"Accept": accept}), 406, "not_acceptable")


class TestAccept:
    @pytest.mark.parametrize(
        "accept",
        [
            "text/event-stream",
            "Text/Event-Stream; charset=utf-8",
            "text/*",
            "application/json, text/event-stream",
            "text/event-stream, */*",
            "application/json;q=0.5, text/event-stream;q=0.9",
            "*/*;q=0.1, text/event-stream",
        ],
    )
    def test_a_stream_is_chosen(self, accept: str) -> None:
        assert wants_stream([accept])

    @pytest.mark.parametrize(
        "accept",
        [
            "application/json",
            "*/*",
            "application/*",
            "",
            "application/json, text/event-stream;q=0.5",
            "text/html, */*",
            "*/*, text/event-stream;q=0",
            "text/event-stream;q=2, application/json",
            "text/event-stream;q=x, application/json",
        ],
    )
    def test_a_list_is_chosen(self, accept: str) -> None:
        assert not wants_stream([accept])

    def test_without_the_header_it_is_a_list(self) -> None:
        assert not wants_stream([])

    def test_several_headers_are_one(self) -> None:
        assert wants_stream(["text/html", "text/event-stream"])

    def test_neither_is_refused(self) -> None:
        with pytest.raises(RequestError, match="text/event-stream"):
            wants_stream(["text/html"])


class TestMessage:
    def test_an_event_has_its_kind_its_cursor_and_its_job(self) -> None:
        at = datetime(2026, 1, 31, 12, tzinfo=UTC)
        event = Event(7, "job.failed", at, UNKNOWN, None, 1, '{"big":12345678901234567890}')

        text = sse.event_message(event, "0@7", '{"jobId":"x"}').decode()

        kind, id, data = text.removesuffix("\n\n").split("\n")
        assert (kind, id) == ("event: job.failed", "id: 0@7")
        assert '"data":{"big":12345678901234567890}' in data
        assert json.loads(data.removeprefix("data: "))["job"] == {"jobId": "x"}

    def test_lines_stay_lines(self) -> None:
        assert sse.message("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"

    def test_a_name_cannot_begin_another_field(self) -> None:
        assert sse.message("x", event="a\ndata: b", id="1\r\n2\x00") == b"event: a data: b\nid: 1  2 \ndata: x\n\n"

    def test_half_a_character_does_not_break_it(self) -> None:
        assert sse.message("\ud800") == b"data: ?\n\n"
