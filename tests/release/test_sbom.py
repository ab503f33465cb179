"""The bill of materials and the look for vulnerabilities, which a release is made with."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from release import audit, sbom

ROOT = Path(__file__).parents[2]
CLOSED = "http://127.0.0.1:9/v1/querybatch"


def names(document: dict[str, Any]) -> set[str]:
    return {each["name"] for each in document["components"]}


def test_everything_that_an_installation_needs_is_named_and_nothing_of_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]

    found = names(sbom.document())

    assert {re.split(r"[\[<>=;! ]", each)[0].lower() for each in wanted} <= found
    assert {"starlette", "uplot", "svelte"} <= found
    assert not found & {"pytest", "mypy", "ruff", "hypothesis", "playwright", "vite"}


def test_every_component_can_be_looked_up_and_every_dependency_is_a_component() -> None:
    document = sbom.document()

    refs = {each["bom-ref"] for each in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    assert all(re.fullmatch(r"pkg:(pypi|npm)/[^@]+@[^@]+", each["purl"]) for each in document["components"])
    assert all(each["externalReferences"][0]["hashes"] for each in document["components"] if "pypi" in each["purl"])
    assert len(refs) == len(document["components"]) + 1
    assert {each["ref"] for each in document["dependencies"]} <= refs
    assert {ref for each in document["dependencies"] for ref in each["dependsOn"]} <= refs


def test_the_same_commit_gives_the_same_text(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        command = [sys.executable, "-m", "release.sbom", str(tmp_path / "new" / name)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True)

    first, second = ((tmp_path / "new" / name).read_text() for name in ("a.json", "b.json"))
    assert first == second
    assert json.loads(first)["bomFormat"] == "CycloneDX"


class _Database(http.server.BaseHTTPRequestHandler):
    """Knows one vulnerability, and answers as OSV does."""

    bad = "pkg:pypi/starlette@"
    whole = True

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        results = [
            {"vulns": [{"id": "X-1"}]} if each["package"]["purl"].startswith(self.bad) else {} for each in queries
        ]
        body = json.dumps({"results": results if self.whole else results[1:]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Database)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_known_vulnerabilities_are_named(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main({"OSV_ADDRESS": database}) == 1

    out = capsys.readouterr().out
    assert re.search(r"pkg:pypi/starlette@\S+: https://osv.dev/X-1", out)
    assert "1 of them" in out


def test_packages_without_known_vulnerabilities_pass(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Database, "bad", "pkg:pypi/none-such@")

    assert audit.main({"OSV_ADDRESS": database}) == 0


@pytest.mark.parametrize("reachable", [False, True])
def test_what_could_not_be_asked_is_not_called_sound(
    database: str, reachable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Database, "whole", False)

    assert audit.main({"OSV_ADDRESS": database if reachable else CLOSED}) == 2

    assert "Nothing was checked" in capsys.readouterr().err
