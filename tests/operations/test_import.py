"""What `import penstock` loads: neither drivers nor servers, and what makes schemas only when one is needed."""

from __future__ import annotations

import subprocess
import sys

NEVER = ("apsw", "fastapi", "nats", "psycopg", "psycopg_pool", "redis", "sqlite3", "starlette", "uvicorn")
LATER = ("jsonschema_rs", "pydantic")

PROGRAM = """
import sys
import penstock
app = penstock.Penstock("sqlite://")

@app.job("work", default_params={"n": 1}, secret=["n"], rate_limit="1/s")
def work(n: int) -> int:
    return n

print(*sorted({names} & set(sys.modules)))
work.order(1)
print(*sorted({names} & set(sys.modules)))
"""


def test_importing_and_defining_loads_no_driver_no_server_and_nothing_that_makes_schemas() -> None:
    before, after = _loaded()

    assert before == []
    assert after == list(LATER)


def _loaded() -> list[list[str]]:
    program = PROGRAM.replace("{names}", repr({*NEVER, *LATER}))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]
