"""Job files: `jobs/**/*.py`, each a definition named by its path.

A file has `def run(ctx, …)` (or `phases = [...]`), and any option of `@app.job` as a variable. A file that cannot be
loaded is a problem with file and line; the other files are loaded, and the last version of the file that could be
loaded is used, if there is one.

"""

from __future__ import annotations

import contextlib
import errno
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.app import Penstock
from penstock.config.project_file import FILE
from penstock.definitions.decorator import OPTIONS
from penstock.definitions.schedule_options import SCHEDULE_OPTIONS
from penstock.domain.errors import InvalidDefinition, InvalidInput, PenstockError
from penstock.job_files.problems import Problem, located

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_SCHEDULED_DEFAULTS: Mapping[str, Any] = {"max_attempts": 3, "backoff": 5, "overlap": "skip"}
_LONGEST = 1_000_000
_IGNORED = (".", "_")


class FilesApp(Penstock):
    """An application from a folder of job files."""

    def __init__(self, store: str, folder: str, *, name: str | None = None, **options: Any) -> None:
        super().__init__(store, **options)
        self.folder: str = os.path.abspath(folder)
        self.name: str = name or Path(self.folder).name
        self.problems: list[Problem] = []
        self.sources: dict[str, str] = {}
        """The text of each loaded file, by its path in the folder."""
        self.paths: dict[str, str] = {}
        """The file of each definition."""
        self.unread: list[str] = []
        """Patterns of names that could not be loaded; they may have schedules."""

    @property
    def origin(self) -> str:
        """The origin of this application's schedules."""
        return f"files:{self.name}"

    @property
    def extras(self) -> Mapping[str, Any]:
        """What a worker gets of an application in addition to its definitions."""
        return {
            "problems": [asdict(each) for each in self.problems],
            "sources": self.sources,
            "paths": self.paths,
            "unread": self.unread,
            "folder": self.folder,
        }


def make(
    folder: str,
    store: str,
    *,
    name: str | None = None,
    good: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
    **options: Any,
) -> FilesApp:
    """Load a folder of job files; `good` are texts that loaded earlier, `resources` are names and `module:factory`.

    `name` distinguishes its schedules from those of other folders on the same store; by default the folder's name.
    """
    app = FilesApp(store, folder, name=name, **options)
    root = Path(app.folder)
    parent = str(root.parent)
    if parent not in sys.path:
        sys.path.insert(0, parent)
    for resource, place in (resources or {}).items():
        _add_resource(app, resource, place)
    for key, paths in _named(app, root).items():
        _take(app, root, key, paths, good or {})
    return app


def _named(app: FilesApp, root: Path) -> dict[str, list[Path]]:
    """Return the files by the name of their definition, without those that start with _ or `.`."""

    def cannot_list(error: OSError) -> None:
        place = Path(os.fsdecode(error.filename))
        if place == root and isinstance(error, FileNotFoundError):
            return
        relative = place.relative_to(root)
        app.problems.append(Problem(_shown(relative.as_posix()), None, f"The folder cannot be read: {error.strerror}."))
        app.unread.append(".".join((*relative.parts, "*")))

    found: dict[str, list[Path]] = {}
    for folder, inner, names in os.walk(root, onerror=cannot_list):
        inner[:] = sorted(each for each in inner if not each.startswith(_IGNORED))
        for each in sorted(names):
            if each.endswith(".py") and not each.startswith(_IGNORED):
                path = Path(folder) / each
                found.setdefault(".".join(path.relative_to(root).with_suffix("").parts), []).append(path)
    return found


def _take(app: FilesApp, root: Path, name: str, paths: list[Path], good: Mapping[str, str]) -> None:
    """Load the file of a definition, or record its problem; use the last good version instead, if there is one."""
    files = {path.relative_to(root).as_posix(): path for path in paths}
    if not all(_NAME.match(part) for part in name.split(".")):
        error = "Its path cannot be a name: use letters, digits, _ and -."
        app.problems += [Problem(_shown(each), None, error) for each in files]
        return
    if len(files) > 1:
        error = f"{' and '.join(files)} are both called {name!r}: rename one of them."
        problems = [Problem(each, None, error) for each in files]
    else:
        problems = [found for each, path in files.items() if (found := _problem(app, name, path, each))]
    if not problems:
        return
    earlier = [each for each in files if each in good]
    kept = len(earlier) == 1 and _load_last_good(app, name, files[earlier[0]], earlier[0], good[earlier[0]])
    app.problems += [replace(each, kept=kept) for each in problems]
    if not kept:
        app.unread.append(name)


def _problem(app: FilesApp, name: str, path: Path, relative: str) -> Problem | None:
    """Load a file; return its problem."""
    text = ""
    try:
        text = _read(path)
        _define(app, name, path, relative, text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return located(error, str(path), relative, name, text)
    return None


def _load_last_good(app: FilesApp, name: str, path: Path, relative: str, text: str) -> bool:
    """Load the last good version of a file; return whether that succeeded."""
    try:
        _define(app, name, path, relative, text)
    except (Exception, SystemExit):
        return False
    return True


def _read(path: Path) -> str:
    if not path.is_file():
        raise OSError(errno.ENOENT, "it leads to no plain file")
    if path.stat().st_size > _LONGEST:
        raise OSError(errno.EFBIG, f"it is larger than the {_LONGEST} bytes that are allowed")
    return path.read_bytes().decode("utf-8-sig")


def _shown(relative: str) -> str:
    """Return a path for people, even if its name is not UTF-8."""
    return relative.encode("utf-8", "backslashreplace").decode()


def _define(app: FilesApp, name: str, path: Path, relative: str, text: str) -> None:
    module = _module(f"penstock_job_files.{name}", path, text)
    said = vars(module)
    options = {each: said[each] for each in (*OPTIONS, *SCHEDULE_OPTIONS) if each in said}
    if options.get("schedule") is not None:
        options = {**_SCHEDULED_DEFAULTS, **options}
    if description := inspect.cleandoc(module.__doc__ or ""):
        options.setdefault("description", description)
    run = said.get("run")
    if run is None and "phases" in options:
        phases = options.pop("phases")
        if not isinstance(phases, list | tuple):
            raise InvalidDefinition(f"{name}: phases must be a list of functions, not {phases!r:.80}.")
        app.pipeline(name, *phases, **options)
    elif callable(run):
        app.job(name, **options)(run)
    else:
        raise InvalidDefinition(
            f"{name}: there is no function run in it.",
            hint="Define def run(ctx): … or async def run(ctx): …, or phases = [...].",
        )
    app.sources[relative] = text
    app.paths[name] = relative


def _module(name: str, path: Path, text: str) -> ModuleType:
    """Return the module of a text; from the text, because the file may have changed."""
    code = compile(text, str(path), "exec", dont_inherit=True)
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - that is what a job file is for
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _add_resource(app: FilesApp, name: str, place: str) -> None:
    """Add a resource; a problem is reported now, and again to jobs that use it."""
    factory = _Factory(name, place)
    try:
        app.resource(name, factory)
        factory.function()
    except PenstockError as error:
        app.problems.append(Problem(FILE, None, str(error)))


class _Factory:
    """Makes a resource with the function in `module:function`."""

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place

    def __call__(self) -> Any:
        function = self.function()
        return contextlib.contextmanager(function)() if inspect.isgeneratorfunction(function) else function()

    def function(self) -> Callable[..., Any]:
        """Return the function, or raise `InvalidInput`."""
        module, _, attribute = str(self._place).partition(":")
        if not module or not attribute:
            raise InvalidInput(f"Resource {self._name!r}: {self._place!r} must be written as module:function.")
        try:
            found = attrgetter(attribute)(importlib.import_module(module))
        except Exception as error:
            raise InvalidInput(
                f"Resource {self._name!r}: {self._place} cannot be loaded: {type(error).__name__}: {error}."
            ) from error
        if not callable(found) or inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found):
            raise InvalidInput(f"Resource {self._name!r}: {self._place} is not a plain function.", hint="Use a def.")
        return found  # type: ignore[no-any-return]
