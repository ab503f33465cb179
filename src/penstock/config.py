"""`penstock.toml`: what a project says once instead of with every command.

What a flag says counts most, then the environment, then the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from penstock.core.errors import InvalidInput
from penstock.engine.settings import WorkerSettings
from penstock.options import refuse_unknown

FILE = "penstock.toml"
_ENVIRONMENT = {"store": "PENSTOCK_STORE", "schema": "PENSTOCK_SCHEMA", "jobs": "PENSTOCK_JOBS", "app": "PENSTOCK_APP"}
_TEXTS = ("name", "app", "store", "schema", "jobs")
_TRUTHS = ("pooler", "migrate")
_WORKER = tuple(each.name for each in fields(WorkerSettings) if each.name != "own_process")


@dataclass(frozen=True, slots=True)
class Config:
    """A project's own words; what it leaves out is None or empty."""

    folder: Path
    """Where the file is; paths in it are seen from there."""
    name: str | None = None
    """Tells the schedules of these job files from those of others on the same store."""
    app: str | None = None
    store: str | None = None
    schema: str = "penstock"
    pooler: bool = False
    migrate: bool = False
    jobs: str | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> dict[str, Any]:
        """How to open the store; its URL must have been said somewhere."""
        if self.store is None:
            raise InvalidInput("No store was named.", hint=f'Say --store sqlite:///jobs.db, or store = "…" in {FILE}.')
        return {"store": self.store, "schema": self.schema, "pooler": self.pooler, "migrate": self.migrate}


def load(folder: str | Path = ".", environment: Mapping[str, str] | None = None) -> Config:
    """What the file in a folder says, and the environment instead where it says something."""
    folder = Path(folder).absolute()
    path = folder / FILE
    told = _read(path) if path.exists() else {}
    environment = os.environ if environment is None else environment
    refuse_unknown(told, (*_TEXTS, *_TRUTHS, "resources", "worker"), f"a setting of {FILE}")
    for name in (*_TEXTS, *_TRUTHS):
        wanted: type = str if name in _TEXTS else bool
        if name in told and not isinstance(told[name], wanted):
            kind = "a text" if wanted is str else "true or false"
            raise InvalidInput(f"{FILE}: {name} must be {kind}, not {told[name]!r:.80}.")
    told |= {name: environment[variable] for name, variable in _ENVIRONMENT.items() if environment.get(variable)}
    if told.get("jobs"):
        told["jobs"] = str(folder / told["jobs"])
    return Config(
        folder=folder,
        **{
            **told,
            "resources": _resources(told.get("resources", {})),
            "worker": _worker(told.get("worker", {})),
        },
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from None


def _resources(told: object) -> dict[str, str]:
    if not isinstance(told, dict) or not all(isinstance(each, str) and ":" in each for each in told.values()):
        raise InvalidInput(f'{FILE}: [resources] holds lines like db = "myapp.db:connect", not {told!r:.80}.')
    return dict(told)


def _worker(told: object) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise InvalidInput(f"{FILE}: [worker] is a table, not {told!r:.80}.")
    refuse_unknown(told, _WORKER, f"a setting of [worker] in {FILE}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    plain = WorkerSettings()
    for name, value in given.items():
        if not _is_like(value, getattr(plain, name)):
            raise InvalidInput(f"{FILE}: {value!r:.80} cannot be {name} of [worker].")
    WorkerSettings(**given)
    return given


def _is_like(value: object, example: object) -> bool:
    """Whether a value is of the kind that a setting has; those without a value are texts."""
    if isinstance(example, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(example, tuple):
        return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return type(value) is (str if example is None else type(example))
