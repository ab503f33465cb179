"""Traces: from enqueue to attempt and phase, across processes; and nothing at all where nobody uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.states import Status
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, ROOT, Stage

Spans = list[dict[str, Any]]

_ENQUEUE = """
import json, sys
from opentelemetry import trace
from tests.runtime.traced import app
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": sys.argv[3]}
caller = TraceContextTextMapPropagator().extract(headers) if sys.argv[3] else None
with trace.get_tracer("the caller").start_as_current_span("request", context=caller):
    job = app.enqueue(sys.argv[1], json.loads(sys.argv[2]))
print(job.id)
"""


_CONVENTIONS = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from penstock import Penstock

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
app = Penstock("sqlite://")
send = app.job("mail.send")(lambda: None)
jobs = app.enqueue_many([send.order() for _ in range(int(sys.argv[1]))])
(span,) = exporter.get_finished_spans()
scope = span.instrumentation_scope
print(json.dumps([span.name, dict(span.attributes), scope.name, scope.version, [job.id for job in jobs]]))
"""


class Traced:
    """A worker with an application that traces, and callers of it."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.file = folder / "spans"
        self.file.touch()
        self.environment = {**stage.environment, "PENSTOCK_TEST_SPANS": str(self.file)}

    def enqueue(self, key: str, params: dict[str, Any], tracestate: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-c", _ENQUEUE, key, json.dumps(params), tracestate], env=self.environment, cwd=ROOT,
            capture_output=True, text=True, check=True, timeout=PATIENCE,
        )  # fmt: skip
        return done.stdout.strip()

    def ended(self, job_id: str) -> Status:
        app = self.stage.app
        wait_until(lambda: app.get(job_id).refresh().status in (Status.SUCCEEDED, Status.FAILED), "it ended", PATIENCE)
        return app.get(job_id).status

    def spans(self) -> Spans:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def traced(stage: Stage, tmp_path: Path) -> Traced:
    made = Traced(stage, tmp_path)
    stage.worker(target="tests.runtime.traced:app", environment=made.environment)
    return made


def one(spans: Spans, name: str) -> dict[str, Any]:
    (found,) = [each for each in spans if each["name"] == name]
    return found


def test_enqueue_attempt_and_phases_are_one_trace_across_processes(traced: Traced) -> None:
    job_id = traced.enqueue("traced", {})

    assert traced.ended(job_id) is Status.SUCCEEDED
    spans = traced.spans()
    request, enqueue, attempt = one(spans, "request"), one(spans, "publish traced"), one(spans, "process traced")
    first, second, own = one(spans, "first"), one(spans, "second"), one(spans, "own work")
    assert len({each["trace"] for each in spans}) == 1
    assert (enqueue["parent"], attempt["parent"]) == (request["span"], enqueue["span"])
    assert first["parent"] == second["parent"] == attempt["span"]
    assert (own["parent"], attempt["links"]) == (first["span"], [])
    assert enqueue["pid"] != attempt["pid"] == first["pid"]
    assert enqueue["attributes"]["penstock.job_id"] == attempt["attributes"]["penstock.job_id"] == job_id
    assert attempt["attributes"]["penstock.outcome"] == "succeed"


@pytest.mark.parametrize(("many", "facts"), [(1, {}), (3, {"messaging.batch.message_count": 3})], ids=["one", "batch"])
def test_spans_follow_the_conventions_for_messaging(many: int, facts: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CONVENTIONS, str(many)], cwd=ROOT, capture_output=True, text=True, check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    name, attributes, tracer, tracer_version, ids = json.loads(done.stdout)

    assert (name, tracer, tracer_version) == ("publish mail.send", "penstock", version("penstock"))
    if many == 1:
        facts = {"messaging.message.id": ids[0], **facts}
    assert {key: value for key, value in attributes.items() if key.startswith("messaging.")} == {
        "messaging.system": "penstock", "messaging.operation.name": "publish", "messaging.operation.type": "send",
        "messaging.destination.name": "mail.send", **facts,
    }  # fmt: skip


def test_a_retry_is_another_attempt_in_the_same_trace_with_a_link(traced: Traced) -> None:
    job_id = traced.enqueue("traced", {"fail": True})

    assert traced.ended(job_id) is Status.SUCCEEDED
    spans = traced.spans()
    enqueue = one(spans, "publish traced")
    first, again = [each for each in spans if each["name"] == "process traced"]
    assert first["trace"] == again["trace"] == enqueue["trace"]
    assert (first["links"], again["links"]) == ([], [enqueue["span"]])
    assert (first["status"], again["status"]) == ("ERROR", "UNSET")
    assert [each["status"] for each in spans if each["name"] == "second"] == ["ERROR", "UNSET"]
    assert first["attributes"]["error.type"] == "ValueError"
    assert "secret" not in traced.file.read_text()


def test_what_a_job_enqueues_belongs_to_its_trace(traced: Traced) -> None:
    job_id = traced.enqueue("parent", {})
    assert traced.ended(job_id) is Status.SUCCEEDED

    child = traced.stage.app.get(job_id).result()
    assert traced.ended(child) is Status.SUCCEEDED

    spans = traced.spans()
    inner = one(spans, "publish plain")
    assert inner["parent"] == one(spans, "process parent")["span"]
    assert one(spans, "process plain")["parent"] == inner["span"]
    traceparent, tracestate = traced.stage.app.get(child).result()
    assert traceparent.startswith(f"00-{inner['trace']}-{inner['span']}-")
    assert tracestate is None


def test_the_trace_state_goes_from_caller_to_attempt_and_to_what_it_enqueues(traced: Traced) -> None:
    job_id = traced.enqueue("parent", {}, tracestate="shop=a b,other=1")
    assert traced.ended(job_id) is Status.SUCCEEDED

    child = traced.stage.app.get(job_id).result()
    assert traced.ended(child) is Status.SUCCEEDED

    names = {"publish parent", "process parent", "publish plain", "process plain"}
    states = {each["name"]: each["state"] for each in traced.spans() if each["name"] in names}
    assert states == dict.fromkeys(names, "shop=a b,other=1")
    assert traced.stage.app.get(child).result()[1] == "shop=a b,other=1"


def test_nothing_is_imported_where_nobody_uses_it() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from penstock import Penstock; from penstock.isolation import child; from penstock.runtime import tracing\n"
        "app = Penstock('sqlite://'); app.job('work')(lambda: None); app.definitions.register()\n"
        "app.enqueue('work')\n"
        "assert tracing.enqueue(['work'], None) is None; tracing.flush()\n"
        "assert not [each for each in sys.modules if each.startswith('opentelemetry.')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=PATIENCE)
