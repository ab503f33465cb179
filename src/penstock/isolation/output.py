"""What a job prints: lines taken from a pipe, capped, the cut shown."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable

from penstock.domain.secrets.policy import Scrubber

MOST_BYTES = 256 * 1024
"""How much of each stream of an attempt is kept."""

_LONGEST_LINE = 8_000
_CHUNK = 65_536


class Output:
    """Reads one stream of a child until it ends; output beyond the cap is read, counted and dropped.

    Until it is watched, output waits in the pipe: most children end before that, and are read once.
    """

    def __init__(self, descriptor: int, keep: Callable[[str], None], secrets: Scrubber) -> None:
        self._descriptor = descriptor
        self._keep = keep
        # Cleaned as one text, so that a secret across two pieces or lines is found.
        self._clean = secrets.stream()
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self._rest: list[str] = []
        self._kept = 0
        self._cut = 0
        self._open = True
        self._watching: asyncio.AbstractEventLoop | None = None

    def watch(self) -> None:
        """Read output when it is printed."""
        if self._open and self._watching is None:
            self._watching = asyncio.get_running_loop()
            self._watching.add_reader(self._descriptor, self._read)

    def take(self) -> None:
        """Read the output so far."""
        if self._open:
            self._read()

    def close(self) -> None:
        """Read the rest, and record how much was cut."""
        while self._open and self._read():
            pass
        self._stop()
        os.close(self._descriptor)
        if not self._kept:
            return
        rest = self._clean.feed(self._decode(b"", True))
        self._take(rest + self._clean.end(cut=self._cut > 0), last=True)
        if self._cut:
            self._keep(f"… {self._cut} bytes more were printed and are cut here.")

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._stop()
            return False
        room = MOST_BYTES - self._kept
        if room < len(data):
            self._cut += len(data) - room
            data = data[:room]
        if data:
            self._kept += len(data)
            self._take(self._clean.feed(self._decode(data)))
        return True

    def _take(self, text: str, *, last: bool = False) -> None:
        """Keep whole lines; an incomplete line waits for its end."""
        if "\n" in text:
            *lines, rest = "".join([*self._rest, text]).split("\n")
            self._rest = [rest]
            for line in lines:
                self._keep_line(line)
        else:
            self._rest.append(text)
        if last and (line := "".join(self._rest)):
            self._keep_line(line)

    def _keep_line(self, line: str) -> None:
        text = line.rstrip("\r")
        for start in range(0, len(text) or 1, _LONGEST_LINE):
            self._keep(text[start : start + _LONGEST_LINE])

    def _stop(self) -> None:
        self._open = False
        if self._watching is not None:
            self._watching.remove_reader(self._descriptor)
            self._watching = None
