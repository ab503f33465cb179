"""Where the code of a worker comes from: an application in a module, or a folder of job files."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from penstock.domain.definition import Definition
from penstock.execution import handlers
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess


class Source(Protocol):
    """Code that can be loaded any number of times."""

    @property
    def origin(self) -> str:
        """The name under which its schedules are declared."""
        ...

    @property
    def watched(self) -> str:
        """The folder that holds its files."""
        ...

    async def zygote(self, allow_threads: bool) -> ZygoteProcess:
        """Start a process that has the code loaded."""
        ...

    def inline(self, definitions: Sequence[Definition]) -> Application | None:
        """Load the code in this process too, if one of the definitions is inline."""
        ...


class AppSource:
    """An application in a module: `module:name`, imported from a folder."""

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
        with _fresh_imports(self.folder) if self._was_loaded else contextlib.nullcontext():
            found = handlers.load(self.target, self.folder)
        self._was_loaded = True
        return found


@contextlib.contextmanager
def _fresh_imports(folder: str) -> Generator[None]:
    """Import the modules of a folder again when they are needed; restore all of them when that fails."""
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
    """Whether a module is a file of the folder, and not of an environment inside it or of penstock."""
    file = getattr(module, "__file__", None) or ""
    others = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.abspath(__file__)))
    return (
        file.startswith(os.path.join(folder, ""))
        and not any(file.startswith(os.path.join(each, "")) for each in others if each != folder)
        and module is not sys.modules.get("__main__")
    )


class FilesSource:
    """A folder of job files; remembers the last text of each that could be loaded."""

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
        """The folder that contains the folder of job files, or the nearest one above it that exists."""
        return str(next(each for each in Path(self.folder).parents if each.is_dir()))
