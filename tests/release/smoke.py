"""Work with penstock as it is installed: import every module, run a job, answer over HTTP."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

_ROUTES = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/v1/jobs", "/v1/stats")


def main() -> None:
    """Raise where something does not work."""
    _import_everything()
    with tempfile.TemporaryDirectory(prefix="penstock-smoke-") as folder:
        _run_a_job(Path(folder))
        asyncio.run(_answer(Path(folder)))


def _import_everything() -> None:
    import penstock

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _run_a_job(folder: Path) -> None:
    (folder / "greet.py").write_text("def run(ctx, name: str = 'world'):\n    return f'hello {name}'\n")
    told = _penstock(folder, "tick", "--drain", "--jobs", str(folder), "--allow-root")
    assert json.loads(told.splitlines()[-1])["errors"] == 0, told
    job_id = _penstock(folder, "enqueue", "greet", "name=Ada").strip()
    _penstock(folder, "tick", "--drain", "--jobs", str(folder), "--allow-root")
    shown = json.loads(_penstock(folder, "jobs", "show", job_id, "--json"))
    assert (shown["status"], shown["result"]) == ("succeeded", "hello Ada"), shown


def _penstock(folder: Path, *words: str) -> str:
    line = [sys.executable, "-W", "ignore", "-m", "penstock", *words, "--store", f"sqlite:///{folder}/jobs.db"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


async def _answer(folder: Path) -> None:
    import httpx2

    from penstock import Penstock
    from penstock.http.application import create

    app = Penstock(f"sqlite:///{folder}/jobs.db")
    transport = httpx2.ASGITransport(create(app), client=("127.0.0.1", 5))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        for route in _ROUTES:
            answer = await http.get(route)
            assert answer.status_code == 200, f"{route}: {answer.text}"
        made = await http.post("/v1/jobs", json={"definitionKey": "greet", "params": {"name": "Bob"}})
        assert made.status_code == 201, made.text
        await http.aclose()
    await app.aclose()


if __name__ == "__main__":
    main()
