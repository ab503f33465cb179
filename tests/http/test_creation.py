"""`POST /v1/jobs` and `/v1/jobs/batch`: one job for one wish, all or none, and exactly what was given."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.access import Role
from penstock.http.job_creation import JobCreator
from penstock.surface.orders import PLAIN, EnqueueOptions
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewServer, NewSite
from tests.http.streams import define, reading, run, until

JOBS = "/v1/jobs"
BATCH = "/v1/jobs/batch"


@pytest.fixture
def ready(site: WebApi, app: Penstock) -> WebApi:
    furnish(app)
    return site


def furnish(app: Penstock) -> None:
    app.job("any")(_any)
    define(app)


def _any(value: Any = None, other: Any = None) -> None: ...


def asked(value: Any = 1, **fields: Any) -> dict[str, Any]:
    return {"definitionKey": "any", "params": {"value": value}, **fields}


class TestIdempotency:
    def test_a_known_key_gives_the_same_job(self, ready: WebApi, app: Penstock) -> None:
        first = ready.post(JOBS, asked(idempotencyKey="once"))
        second = ready.post(JOBS, asked(idempotencyKey="once"))

        made = told(first, 201)
        assert made["created"] is True
        assert first.headers["location"] == second.headers["location"] == f"/v1/jobs/{made['jobId']}"
        assert told(second, 200) == {**made, "created": False}
        assert len(app.jobs.list().jobs) == 1

    def test_the_order_of_keys_does_not_make_other_parameters(self, ready: WebApi) -> None:
        texts = ['{"value":{"a":1,"b":[1,2]},"other":2}', '{"other":2,"value":{"b":[1,2],"a":1}}']
        bodies = [f'{{"definitionKey":"any","idempotencyKey":"k","params":{text}}}' for text in texts]

        first, second = (
            ready.request("POST", JOBS, content=body, headers={"Content-Type": "application/json"}) for body in bodies
        )

        assert told(second, 200)["jobId"] == told(first, 201)["jobId"]

    def test_other_parameters_are_a_conflict_that_names_the_job(self, ready: WebApi) -> None:
        made = told(ready.post(JOBS, asked(1, idempotencyKey="once")), 201)

        error = refused(ready.post(JOBS, asked(2, idempotencyKey="once")), 409, "idempotency_conflict")

        assert error["details"]["jobId"] == made["jobId"]
        told(ready.post(JOBS, asked(2, idempotencyKey="twice")), 201)

    def test_of_many_at_once_one_makes_the_job(self, ready: WebApi, app: Penstock) -> None:
        answers = at_once(ready, [asked(idempotencyKey="once")] * 20)

        assert sorted(each.status_code for each in answers) == [200] * 19 + [201]
        assert len({each.json()["jobId"] for each in answers}) == len(app.jobs.list().jobs) == 1


def test_a_unique_job_answers_while_it_is_active(ready: WebApi, app: Penstock) -> None:
    made = told(ready.post(JOBS, asked(unique=True)), 201)

    assert told(ready.post(JOBS, asked(unique=True)), 200)["jobId"] == made["jobId"]
    told(ready.post(JOBS, asked(2, unique=True)), 201)
    app.jobs.cancel(made["jobId"])
    assert told(ready.post(JOBS, asked(unique=True)), 201)["jobId"] != made["jobId"]


def test_an_unknown_definition_is_not_found_unless_the_setting_allows_it(new_site: NewSite, app: Penstock) -> None:
    wanted = {"definitionKey": "later", "params": {"x": 1}}

    error = refused(new_site().post(JOBS, wanted), 404, "not_found")
    assert error["details"] == {"kind": "definition", "name": "later"}

    made = told(new_site(unknown_definitions=True).post(JOBS, wanted), 201)
    assert app.jobs.read(made["jobId"]).params == {"x": 1}


@pytest.mark.parametrize(
    ("params", "path"),
    [({"text": 5}, "/text"), ({}, ""), ({"text": "x", "more": 1}, ""), ({"text": None}, "/text")],
)
def test_parameters_that_break_the_schema_are_named(ready: WebApi, params: dict[str, Any], path: str) -> None:
    error = refused(ready.post(JOBS, {"definitionKey": "work", "params": params}), 422, "invalid_params")

    assert error["details"]["path"] == path
    assert any(name in error["message"] for name in ("text", "more"))
    assert ready.app.jobs.list().jobs == []


class TestBatches:
    def test_all_are_made_in_the_order_asked(self, ready: WebApi, app: Penstock) -> None:
        made = told(ready.post(BATCH, {"jobs": [asked(number) for number in range(5)]}), 201)["jobs"]

        assert [app.jobs.read(each["jobId"]).params["value"] for each in made] == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("bad", "status", "said"),
        [
            ({"definitionKey": "work", "params": {"text": 5}}, 422, "jobs[57]"),
            ({"definitionKey": "nothing"}, 404, "nothing"),
            ({"definitionKey": "any", "priority": 99}, 422, "priority"),
            ({"definitionKey": "any", "colour": 1}, 422, "/jobs/57/colour"),
            ({"definitionKey": "any", "idempotencyKey": "used", "params": {"value": 2}}, 409, "used"),
        ],
    )
    def test_one_bad_among_many_means_none(
        self, ready: WebApi, app: Penstock, bad: dict[str, Any], status: int, said: str
    ) -> None:
        told(ready.post(JOBS, asked(1, idempotencyKey="used")), 201)
        wanted = [asked(number) for number in range(100)]
        wanted[57] = bad

        answer = ready.post(BATCH, {"jobs": wanted})

        assert answer.status_code == status, answer.text
        assert said in answer.json()["error"]["message"], answer.text
        assert len(app.jobs.list().jobs) == 1

    def test_the_same_key_twice_in_a_batch_is_one_job(self, ready: WebApi, app: Penstock) -> None:
        made = told(ready.post(BATCH, {"jobs": [asked(idempotencyKey="once")] * 2}), 201)["jobs"]

        assert made[0]["jobId"] == made[1]["jobId"]
        assert [each["created"] for each in made] == [True, False]
        assert len(app.jobs.list().jobs) == 1

    def test_plain_jobs_and_such_with_options_share_a_batch(self, ready: WebApi, app: Penstock) -> None:
        wanted = [asked(1), asked(2, priority=14), {"definitionKey": "any"}, asked(3, tags=["a"])]

        made = told(ready.post(BATCH, {"jobs": wanted}), 201)["jobs"]

        jobs = [app.jobs.read(each["jobId"]) for each in made]
        assert [(job.params.get("value"), job.priority, job.tags) for job in jobs] == [
            (1, 10, ()), (2, 14, ()), (None, 10, ()), (3, 10, ("a",)),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "body",
        [
            [],
            {},
            "jobs",
            {"jobs": None},
            {"jobs": {}},
            {"jobs": [], "query": 1},
            {"jobs": [asked(), None, 5]},
            {"jobs": [asked(), {"params": {}}]},
            {"jobs": [asked(), {"definitionKey": 7, "params": {}}]},
            {"jobs": [asked(), {"definitionKey": "any", "params": []}]},
            {"jobs": [asked(), asked(body=1), asked(priority="high")]},
            {"jobs": [asked(), {"definitionKey": "any", "parameters": {}}]},
        ],
    )
    def test_a_batch_of_the_wrong_shape_is_refused_alike_with_and_without_the_framework(
        self, new_site: NewSite, app: Penstock, body: Any
    ) -> None:
        furnish(app)

        short, long = (new_site(origins=origins).post(BATCH, body) for origins in ((), ("https://elsewhere.example",)))

        assert refused(short, 422, "invalid_request") == refused(long, 422, "invalid_request")
        assert app.jobs.count().value == 0

    def test_a_batch_has_one_to_ten_thousand_jobs(self, ready: WebApi, app: Penstock) -> None:
        refused(ready.post(BATCH, {"jobs": []}), 422, "invalid_request")
        refused(ready.post(BATCH, {"jobs": [{"definitionKey": "any"}] * 10_001}), 422, "invalid_request")
        assert app.jobs.count().value == 0

        assert len(told(ready.post(BATCH, {"jobs": [{"definitionKey": "any"}] * 10_000}), 201)["jobs"]) == 10_000
        assert app.jobs.count(cap=20_000).value == 10_000


EXACT = (
    '{"value":{"z":9007199254740993,"a":-9223372036854775808,"m":[9223372036854775807,{"y":1,"b":2}],'
    '"\u00e9":"\u2028\U0001f600","f":0.1},"other":null}'
)


def test_numbers_and_the_order_of_keys_stay_as_they_were_given(app: Penstock, new_server: NewServer) -> None:
    furnish(app)
    server = new_server()

    async def follow() -> None:
        async with (
            httpx2.AsyncClient(base_url=server.url, trust_env=False, verify=False) as http,
            http.stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as stream,
        ):
            body = f'{{"definitionKey":"any","params":{EXACT}}}'.encode()
            made = await http.post(JOBS, content=body, headers={"Content-Type": "application/json"})
            job = told(made, 201)["jobId"]
            for path in (f"{JOBS}/{job}", JOBS, "/v1/events", f"{JOBS}/{job}/events"):
                assert f'"params":{EXACT}' in (await http.get(path)).text, path
            text = ""
            async for part in stream.aiter_text():
                text += part
                if f'"jobId":"{job}"' in text and text.endswith("\n\n"):
                    assert f'"params":{EXACT}' in text
                    return

    run(follow())


def test_creation_may_be_open_to_everybody_and_nothing_else_is(new_site: NewSite, app: Penstock) -> None:
    furnish(app)
    site = new_site(anonymous_create=True)
    site.token("admin")

    made = told(site.post(JOBS, asked()), 201)

    assert app.jobs.read(made["jobId"]).actor == "anonymous@127.0.0.1"
    told(site.post(BATCH, {"jobs": [asked()]}), 201)
    for path in (JOBS, f"{JOBS}/{made['jobId']}", "/v1/events"):
        refused(site.get(path), 401, "unauthenticated")
    refused(site.post(f"{JOBS}/{made['jobId']}/cancel"), 401, "unauthenticated")
    refused(site.post(JOBS, asked(), headers={"Authorization": "Bearer pst_wrong"}), 401, "unauthenticated")
    closed = new_site()
    refused(closed.post(JOBS, asked()), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("webhookUrl", "https://thief.example/hook"),
        ("priority", 20),
        ("maxAttempts", 1000),
        ("parentId", "0199a000-0000-7000-8000-000000000000"),
        ("unique", True),
        ("unique", "nightly"),
    ],
)
def test_creation_without_a_token_leaves_some_fields_to_tokens(
    new_site: NewSite, app: Penstock, field: str, value: Any
) -> None:
    furnish(app)
    site = new_site(anonymous_create=True)
    viewer, creator = site.token(Role.VIEWER, "viewer"), site.token(Role.CREATOR, "creator")

    for headers in ({}, {"Authorization": f"Bearer {viewer}"}):
        error = refused(site.post(JOBS, asked(**{field: value}), headers=headers), 403, "forbidden")
        assert (error["details"]["field"], field in error["message"]) == (field, True)
        error = refused(
            site.post(BATCH, {"jobs": [asked(), asked(**{field: value})]}, headers=headers), 403, "forbidden"
        )
        assert error["details"]["field"] == f"jobs[1].{field}"
    assert app.jobs.list().jobs == []
    told(site.post(JOBS, asked(**{field: None})), 201)
    if field != "webhookUrl":
        told(site.post(JOBS, asked(**{field: value}), headers={"Authorization": f"Bearer {creator}"}), 201)


def test_keys_of_callers_without_a_token_are_apart_from_those_of_tokens_and_code(
    new_site: NewSite, app: Penstock
) -> None:
    furnish(app)
    site = new_site(anonymous_create=True)
    headers = {"Authorization": f"Bearer {site.token(Role.CREATOR, 'creator')}"}
    ours = told(site.post(JOBS, asked(1, idempotencyKey="order-7"), headers=headers), 201)["jobId"]

    theirs = told(site.post(JOBS, asked(2, idempotencyKey="order-7")), 201)["jobId"]
    batch = told(site.post(BATCH, {"jobs": [asked(2, idempotencyKey="order-7")]}), 201)["jobs"]

    assert theirs != ours
    assert (batch[0]["jobId"], batch[0]["created"]) == (theirs, False)
    assert told(site.post(JOBS, asked(2, idempotencyKey="order-7"), client="10.0.0.9"), 200)["jobId"] == theirs
    assert told(site.post(JOBS, asked(1, idempotencyKey="order-7"), headers=headers), 200)["jobId"] == ours
    assert app.enqueue("any", {"value": 1}, idempotency_key="order-7").id == ours


class TestTheLimit:
    def test_two_servers_share_it(self, new_site: NewSite, app: Penstock) -> None:
        furnish(app)
        sites = [new_site(creation_limit=5, creation_period=600) for _ in range(2)]

        answers = [site.post(JOBS, asked(n)) for n, site in zip(range(8), itertools.cycle(sites), strict=False)]

        assert [each.status_code for each in answers] == [201] * 5 + [429] * 3
        assert refused(answers[-1], 429, "rate_limited")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 600
        assert len(app.jobs.list().jobs) == 5

    def test_each_token_and_each_address_has_its_own(self, new_site: NewSite, app: Penstock) -> None:
        furnish(app)
        site = new_site(creation_limit=2, creation_period=600, anonymous_create=True)
        tokens = [site.token(Role.CREATOR, name) for name in ("a", "b")]

        for token in tokens:
            headers = {"Authorization": f"Bearer {token}"}
            found = [site.post(JOBS, asked(), headers=headers).status_code for _ in range(3)]
            assert found == [201, 201, 429]
        for address in ("10.0.0.1", "10.0.0.2"):
            found = [site.post(JOBS, asked(), client=address).status_code for _ in range(3)]
            assert found == [201, 201, 429]

    def test_a_batch_counts_as_many_as_it_has_and_as_one_when_it_is_refused(
        self, new_site: NewSite, app: Penstock
    ) -> None:
        furnish(app)
        site = new_site(creation_limit=7, creation_period=600)

        assert "8 jobs" in refused(site.post(BATCH, {"jobs": [asked()] * 8}), 422, "invalid_request")["message"]
        told(site.post(BATCH, {"jobs": [asked()] * 4}), 201)
        refused(site.post(BATCH, {"jobs": [asked()] * 3}), 429, "rate_limited")
        told(site.post(JOBS, asked()), 201)
        refused(site.post(JOBS, asked()), 429, "rate_limited")
        assert len(app.jobs.list().jobs) == 5


def at_once(site: WebApi, bodies: list[dict[str, Any]]) -> list[httpx2.Response]:
    """The answers to creations that are asked for at the same time."""

    async def ask_all() -> list[httpx2.Response]:
        return await asyncio.gather(*(site._ask("POST", JOBS, json=body) for body in bodies))

    found: list[httpx2.Response] = site._portal.call(ask_all)
    return found


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"definitionKey": "work", "params": {"text": 5}}, 422),
        ({"definitionKey": "any", "idempotencyKey": "used", "params": {"value": 2}}, 409),
        ({"definitionKey": "nothing"}, 404),
    ],
)
def test_one_bad_creation_among_fifty_at_once_spoils_no_other(
    ready: WebApi, app: Penstock, bad: dict[str, Any], status: int
) -> None:
    told(ready.post(JOBS, asked(1, idempotencyKey="used")), 201)
    bodies = [asked(number) for number in range(50)]
    bodies[25] = bad

    answers = at_once(ready, bodies)

    assert [each.status_code for each in answers] == [201] * 25 + [status] + [201] * 24
    stored = {each["jobId"]: each["params"]["value"] for each in told(ready.get(f"{JOBS}?limit=100"))["jobs"]}
    for number, answer in enumerate(answers):
        if number != 25:
            assert stored[answer.json()["jobId"]] == number


def test_a_deleted_job_is_told_by_its_id_alone(app: Penstock, new_server: NewServer) -> None:
    furnish(app)
    server = new_server()
    job = app.enqueue("any", {"value": EXACT}).id

    async def follow() -> None:
        async with reading(server.url) as messages:
            app.jobs.cancel(job)
            app.jobs.delete(job)
            found = await until(messages, "job.deleted")
            assert found[-1].data["deletedJobId"] == job
            assert EXACT not in json.dumps(found[-1].data)

    run(follow())


async def test_jobs_of_several_callers_at_once_are_each_their_own(app: Penstock) -> None:
    furnish(app)
    intake = JobCreator(app.session, WebSettings())
    plain = await intake.order("any", {"value": 1}, None, PLAIN)
    tagged = await intake.order("any", {"value": 2}, None, EnqueueOptions(tags=("a",)))
    wanted = [(plain, "anna"), (plain, "anna"), (tagged, "anna"), (plain, "bert")]

    made = await asyncio.gather(*(intake.create(order, by) for order, by in wanted))

    jobs = [await app.jobs.aread(each.job_id) for each in made]
    assert [(job.params, job.tags, job.actor) for job in jobs] == [
        ({"value": 1}, (), "anna"), ({"value": 1}, (), "anna"), ({"value": 2}, ("a",), "anna"),
        ({"value": 1}, (), "bert"),
    ]  # fmt: skip
