"""A secret that is given over HTTP is seen by the handler and by nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.http.document import operations
from tests.http.servers import opened, serve
from tests.storage.tables import dump
from tests.worker.fleet import PATIENCE, Stage

PIN = "canary-of-the-declared-field-7d1f"
KEY = "canary-of-the-named-key-93ab"
KEPT = ("job_detail", "schedule")
"""Where parameters are stored as they are: whoever reads the database reads them."""


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


@pytest.mark.parametrize("aloud", [False, True])
def test_it_appears_nowhere_but_in_the_handler(stage: Stage, tmp_path: Path, aloud: bool) -> None:
    server = serve(stage, target="tests.http.secrets_app:app")
    seen: dict[str, str] = {}

    def look(method: str, path: str, **options: object) -> httpx2.Response:
        answer = server.request(method, path, **options)
        name = f"{method} {path}"
        seen[name] = seen.get(name, "") + answer.text + str(answer.headers)
        return answer

    hook = look("POST", "/v1/webhooks", json={"url": "https://127.0.0.1:9/hook", "events": ["job.*"]})
    wanted = {
        "definitionKey": "confide", "idempotencyKey": "once",
        "params": {"pin": PIN, "settings": {"api_key": KEY, "aloud": aloud}, "journal": str(tmp_path / "journal")},
    }  # fmt: skip
    job = look("POST", "/v1/jobs", json=wanted).json()["jobId"]
    look("POST", "/v1/jobs", json={**wanted, "params": {**wanted["params"], "pin": PIN + "x"}})  # type: ignore[dict-item]
    look("POST", "/v1/jobs", json={**wanted, "params": {"pin": [PIN], "settings": {"api_key": KEY}, "journal": ""}})
    look("POST", "/v1/jobs", json={**wanted, "params": {"pin": PIN, "settings": {"api_key": KEY}, "journal": 5}})
    schedule = {**wanted, "key": "nightly", "kind": "cron", "expression": "0 3 * * *"}
    del schedule["idempotencyKey"]
    look("POST", "/v1/schedules", json=schedule)
    ended = server.until(job, "succeeded", "failed")
    again = look("POST", f"/v1/jobs/{job}/rerun", json={"params": {"pin": PIN}}).json().get("jobId", job)
    server.until(again, "succeeded", "failed")

    assert ended["status"] == "succeeded"
    assert (tmp_path / "journal").read_text() == f"{PIN} {KEY}"
    names = {"jobId": job, "key": "confide", **({"webhookId": hook.json()["webhookId"]} if hook.is_success else {})}
    for each in operations():
        if not each.changes:
            look("GET", each.at(**names))
    look("GET", "/v1/schedules/nightly")
    for delivery in server.get("/v1/webhooks/deliveries")["deliveries"]:
        look("GET", f"/v1/webhooks/deliveries/{delivery['deliveryId']}")
    seen["stream"] = _stream(server.url, job)
    seen["log of the server"] = server.output
    for table, rows in dump(stage.app.store).items():
        if table not in KEPT:
            seen[f"table {table}"] = "\n".join(rows)

    assert "***" in seen[f"GET /v1/jobs/{job}/logs"], "the job said something"
    assert "said" in seen[f"GET /v1/jobs/{job}/events"]
    assert {name for name, text in seen.items() if PIN in text} == set()
    assert {name for name, text in seen.items() if KEY in text} == set()


def _stream(url: str, job: str) -> str:
    """The stream of a job's events, up to its end."""
    text = ""
    headers = {"Accept": "text/event-stream"}
    with httpx2.stream("GET", f"{url}/v1/jobs/{job}/events", headers=headers, timeout=PATIENCE, trust_env=False) as got:
        for part in got.iter_text():
            text += part
            if "event: job.succeeded" in text:
                break
    assert json.dumps(job) in text
    return text
