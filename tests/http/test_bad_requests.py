"""Requests that cannot be served: each has its code, the same on both stores, and nothing is kept of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite
from tests.http.streams import define, enqueue
from tests.operations.hand import Hand

JOBS = "/v1/jobs"
ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def ready(site: WebApi, app: Penstock) -> WebApi:
    app.job("any")(_any)
    define(app)
    return site


def _any(value: Any = None) -> None: ...


def sent(site: WebApi, body: bytes | str, **headers: str) -> Any:
    content = body.encode() if isinstance(body, str) else body
    return site.request("POST", JOBS, content=content, headers={"Content-Type": "application/json", **headers})


def with_value(text: str) -> str:
    """A good creation, but for this value of a parameter."""
    return f'{{"definitionKey":"any","params":{{"value":{text}}}}}'


GOOD = with_value("1")
NOT_JSON = [
    "", "   ", "{", "}", "{]", GOOD + GOOD, GOOD + "x", GOOD + "\x00", GOOD.replace('"', "'"), GOOD[:-1] + ",}",
    "// all\n" + GOOD, "/* all */" + GOOD, with_value("undefined"), with_value("01"), with_value("+1"),
    with_value(".5"), with_value("1."), with_value("0x1"), with_value("1_000"), with_value("tru"), with_value("'a'"),
    with_value('"\t"'), with_value('"\\x41"'), with_value('"\\u12"'), with_value("\uff11"),
]  # fmt: skip
NOT_UTF8 = [
    b"\xef\xbb\xbf" + GOOD.encode(), GOOD.encode("utf-16"), GOOD.encode("utf-16-le"), GOOD.encode("utf-32"),
    with_value('"\u00e9"').encode("latin-1"), with_value('"x"').encode().replace(b"x", b"\xff"),
    with_value('"x"').encode().replace(b"x", b"\xc0\xaf"), with_value('"x"').encode().replace(b"x", b"\xe2\x82"),
    with_value('"x"').encode().replace(b"x", b"\xed\xa0\x80"),
]  # fmt: skip
NOT_KEPT = [
    with_value("NaN"), with_value("Infinity"), with_value("-Infinity"), with_value("1e400"), with_value("-1e400"),
    with_value(str(2**63)), with_value(str(-(2**63) - 1)), with_value("1" + "0" * 4300), with_value("9" * 5000),
    with_value('"\\u0000"'), with_value('{"\\u0000":1}'), with_value('"\\ud800"'), with_value('"\\udc00\\ud800"'),
    with_value('{"a":1,"a":2}'), with_value('[{"a":{"b":1,"b":1}}]'), '{"definitionKey":"any","definitionKey":"any"}',
    with_value("[" * 63 + "]" * 63), with_value("[" * 1000 + "]" * 1000), with_value('{"a":' * 500 + "1" + "}" * 500),
]  # fmt: skip
NO_JOBS = [
    "null", "1", '"any"', "[]", "[{}]", "true", "{}", '{"definitionKey":null}', '{"definitionKey":5}',
    '{"definitionKey":"any","params":null}', '{"definitionKey":"any","params":[]}',
    '{"definitionKey":"any","params":"{}"}', '{"DefinitionKey":"any"}', '{"definition_key":"any"}',
]  # fmt: skip
BAD_FIELDS: dict[str, list[Any]] = {
    "priority": [True, "10", 1.5, -1, 21, 2**63, [], {}],
    "maxAttempts": [True, 0, -1, 1.5, "3", 2**40],
    "definitionVersion": [True, "1", 1.5, 2**63],
    "idempotencyKey": ["", "k" * 501, 5, "\u0000", ["a"]],
    "tags": ["a", [str(number) for number in range(101)], [""], [5], [None], ["t" * 501], ["\u0000"]],
    "reference": [
        "order",
        {},
        {"type": "order"},
        {"type": "", "id": "1"},
        {"type": "order", "id": 7},
        {"type": "order", "id": "1", "more": 1},
    ],
    "unique": [1, 0, [], "u" * 501],
    "webhookUrl": [
        "",
        "x",
        "ftp://a.example",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://a.example\r\nX: y",
        "https://user:pass@a.example",
        "//a.example",
        "http://a.example/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest",
        "https://localhost/",
        "https://a.example:22/",
        "https://a.example/" + "x" * 3000,
        5,
    ],
    "runAt": [
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2026-01-01T24:00:01Z",
        "2026-01-01T23:59:60Z",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-15:00",
        "2026-01-01T00:00:00+24:00",
        "2026-W01-1T00:00:00Z",
        "now",
        "",
        0,
        1767225600,
        1767225600.5,
        True,
    ],
    "delay": [-1, -0.001, 1e18, "5", True, []],
    "parentId": ["x", "", 5, "../..", "{" + ID + "}"],
    "concurrencyKey": [5, "", "c" * 501],
    "jobId": ["x"],
    "status": ["x"],
    "fence": ["x"],
    "attempts": ["x"],
    "createdAt": ["x"],
    "actor": ["x"],
    "lost": ["x"],
    "__proto__": ["x"],
}


def test_what_is_no_json_in_utf8_is_malformed(ready: WebApi) -> None:
    bodies: list[str | bytes] = [*NOT_JSON, *NOT_UTF8]
    for body in bodies:
        answer = sent(ready, body)
        assert answer.status_code == 400, (body, answer.text)
        refused(answer, 400, "malformed")
    assert ready.app.jobs.list().jobs == []


def test_json_that_the_stores_cannot_keep_alike_is_refused(ready: WebApi) -> None:
    for body in NOT_KEPT:
        answer = sent(ready, body)
        # Python's numbers without end are no JSON at all.
        assert answer.status_code in ((400, 422) if "N" in body or "I" in body else (422,)), (body[:80], answer.text)
    assert ready.app.jobs.list().jobs == []


def test_what_is_no_order_for_a_job_is_refused(ready: WebApi) -> None:
    for body in NO_JOBS:
        answer = sent(ready, body)
        assert answer.status_code == 422, (body, answer.text)
        refused(answer, 422, "invalid_request")
    assert ready.app.jobs.list().jobs == []


def test_a_field_that_is_wrong_or_not_for_callers_is_named(ready: WebApi) -> None:
    pairs = [(name, value) for name, values in BAD_FIELDS.items() for value in values]
    bodies = [{"definitionKey": "any", "params": {}, name: value} for name, value in pairs]

    answers = ready.requests(("POST", JOBS, {"json": body}) for body in bodies)

    taken = [pair for pair, answer in zip(pairs, answers, strict=True) if answer.status_code != 422]
    assert taken == []
    assert {each.json()["error"]["code"] for each in answers} <= {"invalid_request", "invalid_params"}
    assert ready.app.jobs.list().jobs == []


ODD_BUT_GOOD = [
    '""', '"\ufffe\uffff"', '"\u202e\u200b"', '"\U0001f600"', '"' + "a\u0300" * 5000 + '"', '{"":1}',
    '{"' + "k" * 65_536 + '":1}', '{"__proto__":1,"__class__":2,"$ref":"#"}', '{"\u00e9":1,"e\u0301":2}',
    "-0", "1E+2", "0.1", "5e-324", "1.7976931348623157e308", str(2**53 + 1), str(2**63 - 1), str(-(2**63)),
    "[" * 62 + "]" * 62, '[{"b":1,"a":{"d":1,"c":2}}]', "null", "[]", "{}", '"\\u2028"', '"\\/"',
    "[" + "0," * 99_999 + "0]", "{" + ",".join(f'"k{n}":0' for n in range(20_000)) + "}",
]  # fmt: skip


def test_what_is_odd_but_json_comes_back_with_the_same_meaning(ready: WebApi) -> None:
    for text in ODD_BUT_GOOD:
        made = told(sent(ready, with_value(text)), 201)
        found = ready.get(f"{JOBS}/{made['jobId']}")
        assert json.dumps(told(found)["params"]["value"]) == json.dumps(json.loads(text)), text[:80]


@pytest.mark.parametrize("batch", [False, True])
def test_a_body_may_be_as_large_as_the_limit_and_no_larger(new_site: NewSite, app: Penstock, batch: bool) -> None:
    app.job("any")(_any)
    app.definitions.register()
    site = new_site(max_body=5000, max_batch_body=5000)
    path = f"{JOBS}/batch" if batch else JOBS
    body = f'{{"jobs":[{GOOD}]}}' if batch else GOOD
    headers = {"Content-Type": "application/json"}

    for more, status in ((-1, 201), (0, 201), (1, 413)):
        content = body.encode() + b" " * (5000 + more - len(body))
        answer = site.request("POST", path, content=content, headers=headers)
        assert answer.status_code == status, answer.text
        chunked = site.request("POST", path, content=_parts(content), headers=headers)
        assert chunked.status_code == status, chunked.text
    declared = site.request("POST", path, content=GOOD, headers={**headers, "Content-Length": str(2**30)})
    refused(declared, 413, "too_large")


def test_the_large_limit_belongs_to_one_route_and_not_to_paths_that_look_like_it(new_site: NewSite) -> None:
    site = new_site(max_body=100, max_batch_body=1000)
    large = {"content": b" " * 500, "headers": {"Content-Type": "application/json"}, "checked": False}
    paths = ["/v1/schedules/x/jobs/batch", "/v1/jobs%2Fbatch", "/x/v1/jobs/batch", "/v1/jobs/batch/"]
    asked = [(method, path, large) for path in paths for method in ("POST", "PUT", "PATCH", "DELETE")]

    for answer in site.requests(asked):
        refused(answer, 413, "too_large")


def test_the_large_limit_belongs_to_the_batch_route_wherever_the_application_is(
    new_site: NewSite, app: Penstock
) -> None:
    app.job("any")(_any)
    app.definitions.register()
    site = new_site(max_body=100, max_batch_body=1000, root_path="/ops")
    content = f'{{"jobs":[{GOOD}]}}'.encode() + b" " * 500
    headers = {"Content-Type": "application/json"}

    for path in ("/ops/v1/jobs/batch", "/v1/jobs/batch"):
        told(site.request("POST", path, content=content, headers=headers, checked=False), 201)
        refused(site.request("PUT", path, content=content, headers=headers, checked=False), 413, "too_large")


async def _parts(content: bytes) -> Any:
    for start in range(0, len(content), 700):
        yield content[start : start + 700]


def test_a_parameter_may_be_a_megabyte_and_no_more(ready: WebApi) -> None:
    fits = 1024 * 1024 - len('{"value":""}')

    told(sent(ready, with_value('"' + "x" * fits + '"')), 201)
    error = refused(sent(ready, with_value('"' + "x" * (fits + 1) + '"')), 422, "invalid_params")
    assert "1048576" in error["message"] or "1 MiB" in error["message"] or "MB" in error["message"], error


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": ""},
        {"Content-Type": "multipart/form-data; boundary=x"}, {"Content-Type": "application/x-python-serialize"},
        {"Content-Type": "application/json; charset=latin-1"}, {"Content-Type": "application/jsonp"},
        {"Content-Encoding": "gzip"}, {"Content-Encoding": "br"}, {"Content-Encoding": "deflate, gzip"},
    ],
)  # fmt: skip
def test_only_plain_json_is_taken(ready: WebApi, headers: dict[str, str]) -> None:
    for path in (JOBS, f"{JOBS}/batch", f"{JOBS}/bulk", "/v1/schedules", "/v1/system/pause"):
        answer = ready.request(
            "POST", path, content=GOOD.encode(), headers={"Content-Type": "application/json", **headers}
        )
        refused(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404), ("GET", "/v1//jobs", 404), ("GET", "//v1/jobs", 404), ("GET", "/v1/jobs/", 404),
        ("GET", "/V1/jobs", 404), ("GET", "/v1/Jobs", 404), ("GET", "/v1/jobs.", 404), ("GET", "/v1/jobs;x=1", 404),
        ("GET", "/v1/%2e%2e/jobs", 404), ("GET", "/v1/jobs%00", 400), ("GET", "/v1/jobs/%00", 400),
        ("GET", "/v1/jobs/%ff", 400), ("GET", "/v1/definitions/%ff", 400), ("GET", "/v1/definitions/%00", 400),
        ("TRACE", "/v1/jobs", 405), ("CONNECT", "/v1/jobs", 405), ("PUT", "/v1/jobs", 405), ("HEAD", "/v1/jobs", 405),
        ("HEAD", "/v1/events", 405), ("OPTIONS", "/v1/jobs", 405), ("PURGE", "/v1/jobs", 405),
        ("GET", "/v1/jobs/" + "x" * 8200, 414), ("GET", "/v1/jobs?tag=" + "x" * 8200, 414),
    ],
)  # fmt: skip
def test_a_path_or_method_that_there_is_not_is_refused(ready: WebApi, method: str, path: str, status: int) -> None:
    answer = ready.request(method, path)

    assert answer.status_code == status, answer.text
    if method != "HEAD":
        assert answer.json().keys() == {"error"}


def test_a_header_cannot_make_another_method_of_it(ready: WebApi, app: Penstock) -> None:
    job = enqueue(app)
    for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"):
        ready.request("GET", f"{JOBS}/{job}", headers={name: "DELETE"})
        refused(ready.request("POST", f"{JOBS}/{job}", headers={name: "DELETE"}), 405, "method_not_allowed")
    told(ready.get(f"{JOBS}/{job}"))


BAD_IDS = [
    "0", "-1", "1.0", "1e3", "x" * 1000, "%27", "%25", "_", ID[:-1], ID + "0", "%7B" + ID, "urn:" + ID, "\uff10",
    ID.replace("0", "O"), "null", "..%2f..",
]  # fmt: skip


UNKNOWN_IDS = [
    ID, ID.upper(), ID.replace("-", ""), "urn:uuid:" + ID, "%7B" + ID + "%7D",
    "01890a5d-ac96-474b-bcce-b302099a8057", "01890A5DAC96474B0CCEB302099A8057", "00000000-0000-0000-0000-000000000000",
]  # fmt: skip
"""Each is a UUID, in one of the ways to write one, and no job has it."""


def test_what_is_no_id_is_told_from_one_that_is_unknown(ready: WebApi) -> None:
    for id in BAD_IDS:
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/why"), ("POST", "/cancel")):
            answer = ready.request(method, f"{JOBS}/{id}{path}")
            assert answer.status_code in (404, 422), (id, path, answer.text)
    for path in ("", "/logs", "/why", "/attempts", "/events"):
        for id in UNKNOWN_IDS:
            refused(ready.get(f"{JOBS}/{id}{path}"), 404, "not_found")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=501", "limit=1000000000", "limit=1e3", "limit=abc", "limit=", "limit=1.0",
        "limit=%EF%BC%91", "limit=1&limit=2", "limit[]=1", "limit= 1", "limit=0x10", "limit=1_0",
        "cursor=nonsense", "cursor=", "cursor=" + "A" * 300, "cursor=eyJhIjoxfQ", "sort=colour", "sort=", "sort=id",
        "sort=createdAt;drop", "status=done", "status=", "status=QUEUED", "unknown=1", "page=2", "offset=5",
        "count=1", "count=yes", "count=True", "createdFrom=yesterday", "createdFrom=2026-01-01", "createdFrom=1",
        "jobId=x", "jobId=", "parentId=x", "tag=%00", "tag=%ff", "definitionKey=%00", "token=pst_x",
        "&".join(f"p{number}=1" for number in range(1000)),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_meant_is_refused(ready: WebApi, query: str) -> None:
    answer = ready.get(f"{JOBS}?{query}")

    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] in ("invalid_request",)


@pytest.mark.parametrize("wild", ["%25", "_", "w_rk", "' OR 1=1 --", "*", "work\\"])
def test_a_filter_has_no_wildcards(ready: WebApi, app: Penstock, wild: str) -> None:
    enqueue(app, tags=["work"], reference=("work", "work"))

    for name in ("tag", "definitionKey", "referenceType", "scheduleId", "fingerprint"):
        found = ready.get(JOBS, params={name: wild})
        assert found.status_code == 422 or told(found)["jobs"] == [], (name, wild)
    assert len(told(ready.get(JOBS, params={"tag": "work"}))["jobs"]) == 1


def test_a_range_that_ends_before_it_begins_holds_nothing(ready: WebApi, app: Penstock) -> None:
    enqueue(app)

    query = {"createdFrom": "2030-01-01T00:00:00Z", "createdTo": "2020-01-01T00:00:00z"}

    answer = ready.get(JOBS, params=query)
    assert answer.status_code == 422 or told(answer)["jobs"] == []


def test_a_cursor_is_good_for_its_own_list_only(ready: WebApi, app: Penstock) -> None:
    for _ in range(3):
        enqueue(app)
    cursor = told(ready.get(f"{JOBS}?limit=1"))["nextCursor"]

    for query in (f"cursor={cursor[:-2]}", f"cursor={cursor}&sort=priority", f"cursor={cursor}x"):
        refused(ready.get(f"{JOBS}?limit=1&{query}"), 422, "invalid_request")
    assert ready.get(f"/v1/audit?cursor={cursor}").status_code == 422


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "bearer", "Token pst_x", "Bearer a b", "Bearer " + "x" * 2000,
     "pst_x", "Bearer \xe9"],
)  # fmt: skip
def test_a_header_that_shows_no_token_opens_nothing(new_site: NewSite, shown: str) -> None:
    site = new_site(failed_tokens=1000)
    site.token("admin")

    answer = site.get(JOBS, headers={"Authorization": shown.encode("latin-1")})

    refused(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_two_tokens_at_once_are_malformed_and_one_in_the_query_is_unknown(ready: WebApi) -> None:
    good = ready.token("admin")

    refused(ready.get(f"{JOBS}?access_token={good}"), 401, "unauthenticated")
    with ready.as_("admin"):
        refused(ready.get(f"{JOBS}?token={good}"), 422, "invalid_request")
    both = [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")]
    refused(ready.get(JOBS, headers=both), 400, "malformed")


@pytest.mark.parametrize(("count", "size"), [(101, 1), (1, 33_000), (90, 400)])
def test_too_many_or_too_large_headers_are_refused(ready: WebApi, count: int, size: int) -> None:
    answer = ready.get(JOBS, headers={f"X-{number}": "x" * size for number in range(count)})

    refused(answer, 431, "headers_too_large")


@pytest.mark.parametrize("verb", ["cancel", "retry", "approve", "reject", "delete", "rerun"])
def test_a_change_that_the_state_does_not_allow_is_a_conflict(ready: WebApi, app: Penstock, verb: str) -> None:
    job = enqueue(app)
    hand = Hand(app)

    def change() -> Any:
        if verb == "delete":
            return ready.delete(f"{JOBS}/{job}")
        return ready.post(f"{JOBS}/{job}/{verb}")

    if verb in ("retry", "approve", "reject", "delete"):
        refused(change(), 409, "conflict")
        hand.claim_one(job)
        refused(change(), 409, "conflict")
    else:
        hand.succeed(job)
        answer = change()
        assert answer.status_code == (409 if verb == "cancel" else 201), answer.text


def test_a_second_cancel_is_taken_while_the_job_is_ending_and_refused_when_it_has(ready: WebApi, app: Penstock) -> None:
    job = enqueue(app)
    Hand(app).claim_one(job)

    assert told(ready.post(f"{JOBS}/{job}/cancel"), 202)["status"] == "cancelling"
    assert told(ready.post(f"{JOBS}/{job}/cancel"), 202)["status"] == "cancelling"
    waiting = enqueue(app)
    assert told(ready.post(f"{JOBS}/{waiting}/cancel"), 202)["status"] == "cancelled"
    assert refused(ready.post(f"{JOBS}/{waiting}/cancel"), 409, "conflict")["details"]["jobId"] == waiting


@pytest.mark.parametrize(
    "body",
    [
        {"priority": 5, "runAt": "2030-01-01T00:00:00Z", "delay": 5}, {"priority": 5, "delay": 1e300},
        {"priority": 21, "delay": 5}, {}, {"priority": None}, {"priority": None, "runAt": None, "delay": None},
    ],
)  # fmt: skip
def test_a_change_of_a_job_that_is_refused_changes_nothing_of_it(
    ready: WebApi, app: Penstock, body: dict[str, Any]
) -> None:
    job = enqueue(app, delay=3600)
    before = app.jobs.read(job)

    refused(ready.patch(f"{JOBS}/{job}", body), 422, "invalid_request")

    assert app.jobs.read(job) == before


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/*", "text/event-stream;q=0, text/plain"])
def test_events_come_in_two_forms_only(ready: WebApi, accept: str) -> None:
    refused(ready.get("/v1/events", headers={"Accept": accept}), 406, "not_acceptable")


def test_a_fault_of_the_server_is_told_in_the_one_shape_without_its_text(
    ready: WebApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret text of /some/path")

    for group, path in ((ready.app.jobs, JOBS), (ready.app.workers, "/v1/workers")):
        monkeypatch.setattr(group, "alist", broken)
        error = refused(ready.get(path, checked=False), 500, "internal")
        assert "secret" not in str(error)
        assert "request-of-the-test" in error["hint"]
    monkeypatch.setattr(ready.web.state.server.job_creator, "order", broken)
    refused(ready.post(JOBS, {"definitionKey": "any"}, checked=False), 500, "internal")
    assert "request request-of-the-test failed: RuntimeError" in caplog.text
