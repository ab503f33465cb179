"""A queue adapter that is named by `module:name`, so that every process of an application can make its own."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from penstock.domain.errors import InvalidInput
from penstock.domain.ports.queue import Queue

_VERBS = ("publish", "receive", "acknowledge", "hears", "aclose")


def check_name(target: str) -> str:
    """The name of an adapter, which has the form `module:name`."""
    module, colon, name = target.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise InvalidInput(
            f"{target!r:.80} names no queue.",
            hint='Write the module and what makes the queue, such as queue="myproject.queues:make".',
        )
    return target


def load(target: str) -> Queue:
    """Call what `module:name` names, without arguments, and return the queue that it makes."""
    module, _, name = check_name(target).partition(":")
    make = getattr(_module(module, target), name, None)
    if not callable(make):
        raise InvalidInput(f"Queue {target!r}: the module has no function or class {name!r}.")
    queue: Any = make()
    if missing := [verb for verb in _VERBS if not callable(getattr(queue, verb, None))]:
        raise InvalidInput(
            f"Queue {target!r} made {type(queue).__name__}, which has no {', '.join(missing)}.",
            hint="An adapter has the methods of penstock.domain.ports.queue.Queue.",
        )
    return queue  # type: ignore[no-any-return]


def _module(name: str, target: str) -> ModuleType:
    """The module, which may be in the folder of the project, where commands are started."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or (error.name != name and not name.startswith(f"{error.name}.")):
            raise
        raise InvalidInput(
            f"Queue {target!r}: there is no module {name!r} in {folder} or on Python's path.",
            hint="Start the command in your project's folder, or install the project.",
        ) from error
