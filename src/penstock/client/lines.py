"""Server-sent events as they are read: lines in, events out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Received:
    """One event of a stream."""

    kind: str
    data: str
    id: str | None


class Lines:
    """Puts events together from the bytes of a stream, or from its lines."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last event that had one: where to go on after a cut."""
        self._kind = ""
        self._data: list[str] = []
        self._rest = b""

    def split(self, part: bytes) -> list[str]:
        """The lines that end in this part of a stream; only a line feed ends one, whatever else a text may hold."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [line.decode(errors="replace").removesuffix("\r") for line in lines]

    def feed(self, line: str) -> Received | None:
        """Take one line; the event that it ends, if it ends one."""
        if not line:
            return self._finished()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self.last_id = value
        return None

    def _finished(self) -> Received | None:
        kind, data, self._kind, self._data = self._kind, self._data, "", []
        return Received(kind or "message", "\n".join(data), self.last_id) if data or kind else None
