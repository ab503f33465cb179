"""Validators find nothing in the document, and clients that are made from it work against a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from penstock import Penstock
from tests.http.document import document
from tests.http.raw import RawServer
from tests.http.streams import define
from tests.services import unavailable

HERE = Path(__file__).parent
PROGRAMS = HERE / "node_modules" / ".bin"
VENV = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{VENV}{os.pathsep}{os.environ.get('PATH', '')}",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
}
LINTERS = {
    "redocly": ["lint", "--config", str(HERE / "redocly.yaml"), "--max-problems", "1000"],
    "spectral": ["lint", "--ruleset", str(HERE / ".spectral.yaml"), "--fail-severity", "hint"],
}
pytestmark = pytest.mark.xdist_group("openapi")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document as a file."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RawServer]:
    """A server with a schedule of Berlin that is disabled."""
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    define(app)
    app.schedules.save("nightly", "work", cron="0 3 * * *", params={"text": "x"}, timezone="Europe/Berlin",
                      enabled=False, overlap="skip")  # fmt: skip
    made = RawServer(app)
    made.token = app.tokens.create("client", "super_admin").text
    yield made
    made.stop()


def run(*words: str | Path, folder: Path = HERE) -> str:
    """What a program printed that must succeed."""
    done = subprocess.run([str(each) for each in words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, f"{words[0]}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def of_node(name: str) -> Path:
    """A program of the packages in this folder."""
    if not (PROGRAMS / name).exists() or shutil.which("node", path=ENVIRONMENT["PATH"]) is None:
        unavailable(f"{name} is not installed (npm ci in tests/openapi)")
    return PROGRAMS / name


def test_the_document_is_valid_openapi() -> None:
    problems = [each.message for each in OpenAPIV31SpecValidator(document()).iter_errors()]

    assert not problems


@pytest.mark.parametrize("linter", LINTERS)
def test_a_linter_has_nothing_to_say(written: Path, linter: str) -> None:
    run(of_node(linter), *LINTERS[linter], written)


@pytest.mark.parametrize("linter", LINTERS)
def test_a_linter_says_what_is_wrong(tmp_path: Path, linter: str) -> None:
    wrong = json.loads(json.dumps(document()))
    wrong["paths"]["/v1/jobs"]["get"]["operationId"] = "getJob"
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(wrong), encoding="utf-8")

    with pytest.raises(AssertionError, match="operationId"):
        run(of_node(linter), *LINTERS[linter], path)


def test_a_client_of_openapi_typescript_works(written: Path, server: RawServer, tmp_path: Path) -> None:
    compiler = of_node("tsc")
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name in ("client.ts", "tsconfig.json"):
        shutil.copy(HERE / name, tmp_path)
    run(of_node("openapi-typescript"), written, "-o", "schema.d.ts", folder=tmp_path)

    run(compiler, "--project", "tsconfig.json", folder=tmp_path)

    _check(json.loads(run("node", "client.js", _url(server), server.token, folder=tmp_path)))


def test_a_client_of_openapi_python_client_works(written: Path, server: RawServer, tmp_path: Path) -> None:
    said = run(VENV / "openapi-python-client", "generate", "--path", written, "--meta", "none", "--fail-on-warning",
               "--output-path", tmp_path / "made", folder=tmp_path)  # fmt: skip
    assert "WARNING" not in said

    shutil.copy(HERE / "client.py", tmp_path)
    _check(json.loads(run(sys.executable, "client.py", _url(server), server.token, folder=tmp_path)))


def _check(found: dict[str, Any]) -> None:
    """What both clients print."""
    assert found.pop("runAt")
    assert found == {
        "started": "scheduled", "priority": 7, "listed": [True], "cancelled": "cancelled", "timezone": "Europe/Berlin",
        "enabled": False, "overlap": "skip", "code": "not_found",
    }  # fmt: skip


def _url(server: RawServer) -> str:
    return "http://{}:{}".format(*server.address)
