"""Frames between a worker, its zygote and its jobs: a length, then JSON. Never pickle.

A frame from a job is not to be trusted: its length is capped and it must be an object, else `WireError`. What a worker
says to a job may be longer: the results of all phases together.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

Frame = dict[str, Any]

MAX_FRAME = 8 * 1024 * 1024
"""More than a result of the greatest size, escaped, and its company."""

MAX_ANSWER = 1 << 30
"""The most that a worker says to a job at once."""

_HEAD = struct.Struct("!I")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class WireError(Exception):
    """What came over the line is no frame of ours."""


def pack(frame: Mapping[str, Any], longest: int = MAX_FRAME) -> bytes:
    body = _encode(frame).encode()
    if len(body) > longest:
        raise WireError(f"A frame of {len(body)} bytes is too long; {longest} are allowed.")
    return _HEAD.pack(len(body)) + body


class Unpacker:
    """Makes frames of bytes as they come in."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._data)

    def feed(self, data: bytes) -> list[Frame]:
        self._data += data
        frames: list[Frame] = []
        while len(self._data) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._data)
            if size > MAX_FRAME:
                raise WireError(f"A frame of {size} bytes was announced; {MAX_FRAME} are allowed.")
            end = _HEAD.size + size
            if len(self._data) < end:
                break
            frames.append(_read(bytes(self._data[_HEAD.size : end])))
            del self._data[:end]
        return frames


def receive(line: socket.socket) -> Frame | None:
    """The next frame that a worker says, waited for; None when it has gone."""
    head = _exactly(line, _HEAD.size)
    if head is None:
        return None
    (size,) = _HEAD.unpack(head)
    body = _exactly(line, size)
    return None if body is None else _read(body)


def _exactly(line: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _read(body: bytes) -> Frame:
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"A frame is no JSON: {error}.") from None
    if not isinstance(frame, dict):
        raise WireError("A frame is no object.")
    return frame
