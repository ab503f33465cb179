"""An application that uses OpenTelemetry; every process writes its spans to one file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from penstock import Context, Penstock

_SPANS = os.environ["PENSTOCK_TEST_SPANS"]


class FileExporter(SpanExporter):
    """Writes each span as one line, at once."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(_SPANS, "a", encoding="utf-8") as file:
            for span in spans:
                facts = {
                    "name": span.name, "trace": f"{span.context.trace_id:032x}", "span": f"{span.context.span_id:016x}",
                    "state": span.context.trace_state.to_header(),
                    "parent": f"{span.parent.span_id:016x}" if span.parent else None,
                    "links": [f"{each.context.span_id:016x}" for each in span.links], "pid": os.getpid(),
                    "status": span.status.status_code.name, "attributes": dict(span.attributes or {}),
                }  # fmt: skip
                file.write(json.dumps(facts) + "\n")
        return SpanExportResult.SUCCESS


# A resource made by `Resource.create` looks around in threads, which an application must not leave behind on import.
_provider = TracerProvider(resource=Resource({"service.name": "traced"}))
_provider.add_span_processor(SimpleSpanProcessor(FileExporter()))
trace.set_tracer_provider(_provider)

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])


def first(ctx: Context, fail: bool = False) -> int:
    with trace.get_tracer("the application").start_as_current_span("own work"):
        return 1


def second(ctx: Context, fail: bool = False) -> int:
    if fail and ctx.attempt == 1:
        raise ValueError("a secret that no span may tell")
    return 2


app.pipeline("traced", first, second, max_attempts=2, backoff=0)


@app.job("parent")
async def parent(ctx: Context) -> str:
    return ctx.enqueue("plain").id


@app.job("plain")
def plain(ctx: Context) -> list[str | None]:
    return [ctx.traceparent, ctx.tracestate]
