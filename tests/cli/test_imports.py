"""What commands load: neither the web framework nor the engine, on a server no store; the answers are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.cli.connection import Connection, _inside
from penstock.cli.exit_codes import ApiError
from penstock.config.project_file import Config
from penstock.domain.errors import hint_for
from tests.http.raw import RawServer

HEAVY = (
    "fastapi", "starlette", "pydantic", "uvicorn", "httpx2", "anyio", "prometheus_client", "watchfiles",
    "penstock.http.application", "penstock.http.routes", "penstock.http.schemas", "penstock.http.server",
    "penstock.worker.worker", "penstock.isolation.zygote_process", "penstock.launch.worker_host",
    "penstock.launch.services", "penstock.launch.serve",
    "rich", "psycopg", "redis", "nats", "numpy",
)  # fmt: skip
"""What the simplest commands on a store do without; each with the modules in it."""
HEAVY_ON_A_SERVER = (
    "fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client", "watchfiles", "rich", "asyncio", "apsw",
    "psycopg", "cronsim", "tzdata", "penstock.app", "penstock.config.project_file",
    "penstock.execution", "penstock.isolation", "penstock.worker", "penstock.background", "penstock.storage",
    "penstock.queues", "penstock.http", "penstock.launch",
)  # fmt: skip
"""What commands on a server do without."""
HEAVY_AT_THE_START = (
    "prometheus_client",
    "rich",
    "httpx2",
    "penstock.http.metrics",
    "penstock.maintenance.doctor",
    "penstock.demo",
)
"""What a server does not load before it is asked for it."""
PROGRAM = """
import json, sys
from penstock.cli import main
try:
    main()
except SystemExit as end:
    print()
    print(json.dumps([end.code, sorted(sys.modules)]))
"""
COMMANDS = [["jobs", "list"], ["jobs", "list", "--status", "queued,failed"], ["status"], ["enqueue", "work", "n=1"]]


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Penstock(url)
    app.job("work")(_work).enqueue(n=7)
    app.close()
    return url


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words))
def test_a_command_on_a_store_loads_neither_framework_nor_engine(words: list[str], store: str, tmp_path: Path) -> None:
    if words[0] == "enqueue":
        # A definition has to be asked for what a text with = means.
        words = [words[0], words[1], "--params", '{"n": 1}']

    # Only `status` shows the version.
    heavy = HEAVY if words[0] == "status" else (*HEAVY, "importlib.metadata")
    assert _loaded([*words, "--store", store], tmp_path, heavy) == []


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words))
def test_a_command_on_a_server_loads_neither_a_store_nor_an_event_loop(
    words: list[str], store: str, tmp_path: Path
) -> None:
    app = Penstock(store)
    server = RawServer(app)

    loaded = _loaded([*words, "--server", f"http://127.0.0.1:{server.address[1]}"], tmp_path, HEAVY_ON_A_SERVER)

    server.stop()
    assert loaded == []


def test_a_server_loads_at_its_start_only_what_it_needs() -> None:
    program = "import json, sys, penstock.launch.serve; print(json.dumps(sorted(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert _among(json.loads(done.stdout), HEAVY_AT_THE_START) == []


def test_the_list_of_what_is_heavy_names_what_there_is(store: str, tmp_path: Path) -> None:
    loaded = _loaded(["tokens", "list", "--store", store], tmp_path)

    assert {"fastapi", "starlette", "pydantic", "httpx2", "penstock.http.application"} <= set(loaded)
    assert [each for each in HEAVY + HEAVY_ON_A_SERVER + HEAVY_AT_THE_START if find_spec(each) is None] == []


def _among(modules: Sequence[str], heavy: Sequence[str]) -> list[str]:
    """Those of the modules that are heavy, or parts of such a one."""
    return [each for each in modules if any(each == name or each.startswith(f"{name}.") for name in heavy)]


def _loaded(words: Sequence[str], folder: Path, heavy: Sequence[str] = HEAVY) -> list[str]:
    """The heavy modules that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=60
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    # Jobs that no worker serves are an alert, which `status` tells by its code.
    assert code in ((0, 1) if words[0] == "status" else (0,)), done.stderr
    assert not done.stderr.startswith("Traceback")
    return _among(modules, heavy)


GOOD: list[tuple[str, str, dict[str, Any], Any]] = [
    ("GET", "/v1/jobs", {"limit": 1, "count": True}, None),
    ("GET", "/v1/jobs", {"sort": "finishedAt", "status": ["queued", "failed"], "definitionKey": "work"}, None),
    ("GET", "/v1/jobs", {"tag": "none", "count": True}, None),
    ("GET", "/v1/system", {}, None),
    ("GET", "/v1/stats", {}, None),
    ("GET", "/v1/workers", {}, None),
    ("GET", "/v1/alerts", {}, None),
]
BAD: list[tuple[str, str, dict[str, Any], Any]] = [
    ("GET", "/v1/jobs", {"status": ["no such"]}, None),
    ("GET", "/v1/jobs", {"limit": 0}, None),
    ("GET", "/v1/jobs", {"limit": 501}, None),
    ("GET", "/v1/jobs", {"sort": "name"}, None),
    ("GET", "/v1/jobs", {"cursor": "garbage"}, None),
    ("GET", "/v1/jobs", {"referenceId": "1"}, None),
    ("GET", "/v1/jobs", {"parentId": "garbage"}, None),
    ("POST", "/v1/jobs", {}, {"definitionKey": "unknown", "params": {}}),
    ("POST", "/v1/jobs", {}, {"definitionKey": "work", "params": {"n": "text"}}),
    ("POST", "/v1/jobs", {}, {"definitionKey": "work", "params": {"other": 1}}),
    ("POST", "/v1/jobs", {}, {"definitionKey": "", "params": {"n": 1}}),
    ("POST", "/v1/jobs", {}, {"definitionKey": 1, "params": {"n": 1}}),
    ("POST", "/v1/jobs", {}, {"definitionKey": "work", "params": []}),
]


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, store: str) -> Iterator[tuple[Connection, Connection]]:
    """A store by the short way, and by the framework."""
    found = Config(folder=Path(), store=store)
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        found = Config(folder=Path(), store=server.create_database(), migrate=True)
        app = Penstock(**found.address)
        app.job("work")(_work).enqueue(n=7)
        app.close()
    short, long = _inside(found), _inside(found)
    long._make_answers = None
    with closing(short), closing(long):
        yield short, long


def test_both_ways_give_the_same_answers(both: tuple[Connection, Connection]) -> None:
    short, long = both
    for method, path, query, body in GOOD:
        answers = [each.ask(method, path, query=query, body=body).data for each in both]
        for each in answers:
            for name in ("at", "since", "now"):
                each.pop(name, None)

        assert answers[0] == answers[1], path

    made = [each.ask("POST", "/v1/jobs", body={"definitionKey": "work", "params": {"n": 2}}).data for each in both]
    jobs = [long.get(f"/v1/jobs/{each['jobId']}").data for each in made]

    assert [(each["status"], each["created"]) for each in made] == [("queued", True)] * 2
    facts = [{name: each[name] for name in ("params", "actor", "priority", "maxAttempts", "tags")} for each in jobs]
    assert facts[0] == facts[1]
    assert jobs[1]["actor"].startswith("cli:")
    assert short._made is None


def test_both_ways_refuse_alike(both: tuple[Connection, Connection]) -> None:
    for method, path, query, body in BAD:
        said = []
        for each in both:
            try:
                answer: object = each.ask(method, path, query=query, body=body).data
            except ApiError as error:
                answer = (error.code, error.message, hint_for("cli", error.hint), error.details)
            said.append(answer)

        assert said[0] == said[1], (path, query, body)
        assert type(said[0]) is tuple, (path, query, body)


def _work(n: int = 0) -> int:
    return n
