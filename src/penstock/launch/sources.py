"""Where the code of a worker comes from: an application in a module, or a folder of job files."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from penstock.domain.definition import Definition
from penstock.execution import handlers
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess

_DEBOUNCE = 200
_LOOK = 1000
"""How often to see whether the watched folder itself is still the same, in milliseconds."""

Stamp = Mapping[str, tuple[int, int, int]]
"""What tells a file from its earlier self, by its path."""


class Source(Protocol):
    """Code that can be loaded, and loaded anew."""

    @property
    def origin(self) -> str:
        """Who declares its schedules."""
        ...

    @property
    def watched(self) -> str:
        """The folder whose files it is made of."""
        ...

    async def zygote(self, allow_threads: bool) -> ZygoteProcess:
        """A new process that has it loaded."""
        ...

    def inline(self, definitions: Sequence[Definition]) -> Application | None:
        """The same in this process, if one of the definitions is inline."""
        ...


class AppSource:
    """An application that a module holds: `module:name`, seen from a folder."""

    def __init__(self, target: str, folder: str | None = None, loaded: Application | None = None) -> None:
        """`loaded` is the application itself, where this process has it: its inline jobs share its variables."""
        self.target = target
        self.folder: str = os.path.abspath(folder or os.getcwd())
        self._loaded = loaded
        self._was_loaded = False

    @property
    def origin(self) -> str:
        return self.target

    @property
    def watched(self) -> str:
        return self.folder

    async def zygote(self, allow_threads: bool) -> ZygoteProcess:
        return await ZygoteProcess.start(self.target, self.folder, allow_threads=allow_threads)

    def inline(self, definitions: Sequence[Definition]) -> Application | None:
        if not any(each.isolation == "inline" for each in definitions):
            return None
        if self._loaded is not None:
            return self._loaded
        with _imported_anew(self.folder) if self._was_loaded else contextlib.nullcontext():
            found = handlers.load(self.target, self.folder)
        self._was_loaded = True
        return found


@contextlib.contextmanager
def _imported_anew(folder: str) -> Generator[None]:
    """Have the modules of a folder imported again where they are asked for; all are as before when that fails."""
    before = {name: module for name, module in list(sys.modules.items()) if _is_in(folder, module)}
    for name in before:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in [name for name, module in list(sys.modules.items()) if _is_in(folder, module)]:
            del sys.modules[name]
        sys.modules.update(before)
        raise


def _is_in(folder: str, module: object) -> bool:
    """Whether a module is a file of the folder, and not of an environment that happens to lie in it, or our own."""
    file = getattr(module, "__file__", None) or ""
    others = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.abspath(__file__)))
    return (
        file.startswith(os.path.join(folder, ""))
        and not any(file.startswith(os.path.join(each, "")) for each in others if each != folder)
        and module is not sys.modules.get("__main__")
    )


class FilesSource:
    """A folder of job files; of each the text that last loaded is remembered."""

    def __init__(
        self,
        folder: str,
        address: Mapping[str, Any],
        *,
        name: str | None = None,
        resources: Mapping[str, str] | None = None,
    ) -> None:
        self.folder: str = os.path.abspath(folder)
        self.origin: str = f"files:{name or os.path.basename(self.folder)}"
        self._call: dict[str, Any] = {
            **address, "folder": self.folder, "name": name, "resources": dict(resources or {}),
        }  # fmt: skip
        self._good: Mapping[str, str] = {}

    @property
    def watched(self) -> str:
        return self.folder

    async def zygote(self, allow_threads: bool) -> ZygoteProcess:
        call = {**self._call, "good": self._good}
        zygote = await ZygoteProcess.start(
            "penstock.job_files.discovery:make", self._place, call=call, allow_threads=allow_threads
        )
        self._good = zygote.extras["sources"]
        return zygote

    def inline(self, definitions: Sequence[Definition]) -> Application | None:
        if any(each.isolation == "inline" for each in definitions):
            return handlers.load("penstock.job_files.discovery:make", self._place, {**self._call, "good": self._good})
        return None

    @property
    def _place(self) -> str:
        """The folder that holds the one of the files, or, while it is missing too, the nearest one above."""
        return str(next(each for each in Path(self.folder).parents if each.is_dir()))


def stamp(folder: str) -> Stamp:
    """How the Python files below a folder stand; of one that is missing, nothing."""
    found: dict[str, tuple[int, int, int]] = {}
    for place, inner, names in os.walk(folder):
        inner[:] = [each for each in inner if not each.startswith(".") and each not in ("__pycache__", "node_modules")]
        for path in (os.path.join(place, each) for each in names if each.endswith(".py")):
            with contextlib.suppress(OSError):
                facts = os.stat(path)
                found[path] = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
    return found


async def changes(folder: str, seen: Stamp) -> AsyncGenerator[None]:
    """Yields whenever the Python files below a folder are not as last seen; it may come and go itself."""
    import watchfiles

    while True:
        identity = _identity(folder)
        if identity is None:
            await asyncio.sleep(_LOOK / 1000)
        else:
            watching = watchfiles.awatch(
                folder, debounce=_DEBOUNCE, watch_filter=watchfiles.PythonFilter(),
                rust_timeout=_LOOK, yield_on_timeout=True,
            )  # fmt: skip
            # What changed before anybody watched makes no event.
            unsure = True
            async with contextlib.aclosing(watching):
                async for changed in watching:
                    if (changed or unsure) and (now := await asyncio.to_thread(stamp, folder)) != seen:
                        seen = now
                        yield
                    unsure = False
                    if _identity(folder) != identity:
                        break
        if (now := await asyncio.to_thread(stamp, folder)) != seen:
            seen = now
            yield


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(folder)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
