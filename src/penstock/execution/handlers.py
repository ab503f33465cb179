"""An application as a worker sees it: its definitions with their code, and how to load it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.domain.context import Context, JobRequests
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput
from penstock.domain.schedule.schedule import Schedule


class Step(Protocol):
    """One phase of a handler."""

    @property
    def name(self) -> str: ...

    @property
    def takes_context(self) -> bool: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    def call(self, ctx: Context | None, arguments: Mapping[str, Any]) -> Any:
        """Call it with the arguments that it takes; the context is needed only when it takes one."""
        ...


class Arguments(Protocol):
    """Turns stored parameters into what a handler's type hints ask for."""

    def arguments(self, params: str) -> dict[str, Any]: ...


class Handle(Protocol):
    """A definition together with its code."""

    @property
    def definition(self) -> Definition: ...

    @property
    def schema(self) -> str: ...

    @property
    def signature(self) -> Arguments: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def bare(self) -> Callable[[], Any] | None:
        """The function of its only phase, when a job without parameters is a call without arguments."""
        ...

    @property
    def hooks(self) -> Mapping[str, Callable[..., Any]]: ...

    @property
    def retry_on(self) -> tuple[type[BaseException], ...]: ...

    @property
    def fatal_on(self) -> tuple[type[BaseException], ...]: ...


class Application(Protocol):
    """A user's `Penstock`, as a worker sees it."""

    @property
    def definitions(self) -> Sequence[Handle]: ...

    @property
    def resources(self) -> Mapping[str, Callable[[], Any]]: ...

    @property
    def declared_schedules(self) -> Sequence[Schedule]: ...

    @property
    def extras(self) -> Mapping[str, Any]:
        """Other facts for a worker, such as the files that could not be loaded."""
        ...

    @property
    def address(self) -> Mapping[str, Any] | None: ...

    def enter_job(self, errands: JobRequests) -> None: ...

    def leave_job(self) -> None: ...

    def enqueue(self, definition_key: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any: ...


def load(target: str, folder: str | None = None, call: Mapping[str, Any] | None = None) -> Application:
    """The application that `module:name` names; the name may be left out when the module has just one.

    With `call` the name is that of a function which makes the application from these arguments.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name:
        raise InvalidInput(f"{target!r} names no application.", hint="Write module:app, such as myproject.jobs:app.")
    folder = os.getcwd() if folder is None else folder
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if module_name.endswith(".py"):
        module = _from_file(module_name, folder)
    else:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name and not module_name.startswith(f"{error.name}."):
                raise
            raise InvalidInput(
                f"There is no module {module_name!r} in {folder} or on Python's path.",
                hint="Start the worker in your project's folder, or install the project.",
            ) from error
    if call is not None:
        return getattr(module, attribute)(**call)  # type: ignore[no-any-return]
    return _find(module, attribute, target)


def _from_file(name: str, folder: str) -> Any:
    path = os.path.join(folder, name)
    stem = os.path.basename(name)[:-3]
    spec = importlib.util.spec_from_file_location(stem, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise InvalidInput(f"There is no file {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    return module


def _find(module: Any, attribute: str, target: str) -> Application:
    if attribute:
        found = getattr(module, attribute, None)
        if found is None:
            raise InvalidInput(f"{target!r}: the module has nothing called {attribute!r}.")
        if not _is_application(found):
            raise InvalidInput(f"{target!r} is no Penstock application, but {type(found).__name__}.")
        return found  # type: ignore[no-any-return]
    candidates = {id(value): name for name, value in vars(module).items() if _is_application(value)}
    if len(candidates) != 1:
        names = ", ".join(sorted(candidates.values())) or "none"
        raise InvalidInput(
            f"{target!r} must name one application, and the module has {names}.",
            hint=f"Write {module.__name__}:app with its name.",
        )
    return getattr(module, *candidates.values())  # type: ignore[no-any-return]


def _is_application(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "enter_job") and hasattr(value, "definitions")
