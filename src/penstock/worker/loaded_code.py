"""The code that a worker has loaded: its definitions by lane, and the application of the inline ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from penstock.domain.definition import Definition
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.store import Store
from penstock.execution.context import Resources
from penstock.execution.handlers import Application, Handle
from penstock.runtime.service import log
from penstock.runtime.timeouts import Timeouts
from penstock.worker.hooks import ON_START


class LoadedCode:
    """The definitions and handlers that can be run; replaced as a whole by a reload."""

    def __init__(self, definitions: Mapping[int, Definition], inline: Application | None) -> None:
        self.definitions = definitions
        self.inline = inline
        self.resources: Resources = Resources(inline.resources if inline else {})
        self.timeouts: Timeouts = Timeouts()
        self._earlier: list[Resources] = []
        inlined = inline.definitions if inline else ()
        found = {(each.definition.key, each.definition.version): each for each in inlined}
        names = {lane: (each.key, each.version) for lane, each in definitions.items()}
        self.handles: dict[int, Handle] = {lane: found[name] for lane, name in names.items() if name in found}
        """The code of inline definitions, by lane."""
        self.plain: frozenset[int] = frozenset(
            lane
            for lane, each in self.handles.items()
            if len(each.steps) == 1 and ON_START not in each.definition.hooks
        )
        """The lanes whose first attempts need nothing but a call."""

    @property
    def inline_lanes(self) -> list[int]:
        return sorted(lane for lane, each in self.definitions.items() if each.isolation == "inline")

    @property
    def process_lanes(self) -> list[int]:
        return sorted(lane for lane, each in self.definitions.items() if each.isolation != "inline")

    @property
    def hooked(self) -> dict[int, Definition]:
        return {lane: each for lane, each in self.definitions.items() if each.hooks}

    def set_log_levels(self, in_force: Callable[[int, Definition], Definition]) -> None:
        """Set the loggers of inline definitions to the levels of the definitions in force."""
        for lane, handle in self.handles.items():
            definition = in_force(lane, handle.definition)
            logger = logging.getLogger(f"penstock.job.{definition.key}")
            logger.setLevel(logging.NOTSET if definition.log_level == "info" else definition.log_level.upper())

    def replace(self, earlier: LoadedCode, in_force: Callable[[int, Definition], Definition]) -> None:
        """Replace earlier code; the same code goes on with its resources, other code closes them at the end."""
        self.set_log_levels(in_force)
        self._earlier = earlier._earlier
        if self.inline is earlier.inline:
            self.resources = earlier.resources
        else:
            # Running attempts keep the old code, and the resources that it has opened.
            self._earlier = [*earlier._earlier, earlier.resources]

    def close(self) -> None:
        """Close the resources of inline jobs."""
        for each in (self.resources, *reversed(self._earlier)):
            try:
                each.close()
            except BaseException:
                log.exception("a resource of inline jobs could not be closed")


async def register(
    store: Store, admin: AdminPort, definitions: Sequence[Definition], inline: Application | None
) -> LoadedCode:
    """Register definitions in the store, and read their lanes."""
    lanes = await store.arun(admin.register(definitions))
    return LoadedCode({lanes[each.key, each.version]: each for each in definitions}, inline)
