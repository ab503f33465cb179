"""An application whose only job writes its secrets to every output that a job has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penstock import Context, Penstock

app = Penstock(
    os.environ.get("PENSTOCK_TEST_STORE", "sqlite://"), schema=os.environ.get("PENSTOCK_TEST_SCHEMA", "penstock")
)


@app.job("confide", secret=["pin"], backoff=0, max_attempts=2)
def confide(ctx: Context, pin: str, settings: dict[str, Any], journal: str) -> Any:
    """Write them to a file for the test, then to every output."""
    key = settings["api_key"]
    Path(journal).write_text(f"{pin} {key}")
    told = [pin, key] if settings["aloud"] else [pin]
    for text in told:
        print(text)
        ctx.logger.error("it is %s", text)
        ctx.progress(50, f"now {text}", text)
        ctx.emit_event("said", {"text": text})
    if ctx.attempt == 1:
        raise ValueError(" and ".join(told))
    return {"said": told}
