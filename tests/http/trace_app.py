"""An application without OpenTelemetry whose jobs return their trace context, and create jobs."""

from __future__ import annotations

import os

from penstock import Context, Penstock

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])


def _told(ctx: Context) -> list[str | None]:
    return [ctx.traceparent, ctx.tracestate]


@app.job("told")
def told(ctx: Context) -> list[str | None]:
    return _told(ctx)


@app.job("forked")
def forked(ctx: Context, traceparent: str | None = None) -> dict[str, object]:
    return {"told": _told(ctx), "child": ctx.enqueue("told", traceparent=traceparent).id}


@app.job("inline", isolation="inline")
async def inline(ctx: Context, traceparent: str | None = None) -> dict[str, object]:
    return {"told": _told(ctx), "child": ctx.enqueue("told", traceparent=traceparent).id}
