"""Finds the code of an application object, so that another process can load it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from penstock.app import Penstock
from penstock.config.store_address import UNNAMED
from penstock.domain.errors import InvalidInput
from penstock.job_files.discovery import FilesApp
from penstock.launch.sources import AppSource, FilesSource, Source


def source_of(app: Penstock) -> Source:
    """The source from which another process can load this application."""
    if isinstance(app, FilesApp):
        address = {**(app.address or {})}
        if address.get("queue") == UNNAMED:
            del address["queue"]
        return FilesSource(app.folder, address, name=app.name)
    modules = sorted(sys.modules.copy().items(), key=lambda each: each[0] == "__main__")
    for module, content in modules:
        for name, value in list(getattr(content, "__dict__", {}).items()):
            if value is app:
                return _of_module(content, module, name, app)
    raise InvalidInput(
        "The application is not a variable of a module, so no worker can load it.",
        hint="Assign it in a module: app = Penstock(…).",
    )


def is_zygote() -> bool:
    """Whether this process only loads the code of jobs: a worker that starts on import would start another one."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("penstock.isolation.zygote")


def _of_module(content: Any, module: str, name: str, app: Penstock) -> Source:
    file = getattr(content, "__file__", None)
    spec = getattr(content, "__spec__", None)
    if module == "__main__" and spec is not None:
        module = spec.name  # python -m
    if module != "__main__":
        return AppSource(f"{module}:{name}", _import_folder(module, file), app)
    if file is None:
        raise InvalidInput("A job's process cannot load an application that was typed.", hint="Write it to a file.")
    folder, script = os.path.split(os.path.abspath(file))
    return AppSource(f"{script}:{name}", folder, app)


def _import_folder(module: str, file: str | None) -> str | None:
    """The folder from which a module is imported; None for an installed one, which is found from anywhere."""
    if file is None:
        return None
    path = Path(file).absolute()
    above = module.count(".") + (path.stem == "__init__")
    folder = str(path.parents[above])
    return None if folder in sysconfig.get_paths().values() else folder
