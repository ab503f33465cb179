"""Frames between a worker, its zygote and its jobs: a length, then JSON. Never pickle.

A frame from a job is not to be trusted: its length is capped and it must be an object, else `WireError`. What a worker
says to a job may be longer: the results of all phases together.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

Frame = dict[str, Any]

MAX_FRAME = 8 * 1024 * 1024
"""More than a result of the greatest size, escaped, and its company."""

MAX_ANSWER = 1 << 30
"""The most that a worker says to a job at once."""

FORKS_AT_ONCE = 16
"""The most that a worker asks its zygote for in one frame, which comes with three descriptors for each."""

_HEAD = struct.Struct("!I")
_PIECE = 1 << 20
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


class WireError(Exception):
    """What came over the line is no frame of ours."""


def pack(frame: Mapping[str, Any], longest: int = MAX_FRAME) -> bytes:
    return pack_text(_encode(frame), longest)


def pack_text(text: str, longest: int = MAX_FRAME) -> bytes:
    """A frame whose JSON is there already."""
    body = text.encode()
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


def send(line: int, data: bytes) -> None:
    """Say something on a descriptor that waits until there is room."""
    while data:
        data = data[os.write(line, data) :]


def receive(line: int) -> Frame | None:
    """The next frame that a worker says on a descriptor, waited for; None when it has gone."""
    head = _exactly(line, _HEAD.size)
    if head is None:
        return None
    (size,) = _HEAD.unpack(head)
    body = _exactly(line, size)
    return None if body is None else _read(body)


def _exactly(line: int, size: int) -> bytes | None:
    part = os.read(line, size if size < _PIECE else _PIECE)
    if len(part) == size:
        return part
    parts = bytearray()
    while part:
        parts += part
        if len(parts) == size:
            return bytes(parts)
        part = os.read(line, min(size - len(parts), _PIECE))
    return None


def _read(body: bytes) -> Frame:
    try:
        text = body.decode()
        frame, end = _decode(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"A frame is no JSON: {error}.") from None
    if end != len(text):
        raise WireError("A frame is more than one piece of JSON.")
    if not isinstance(frame, dict):
        raise WireError("A frame is no object.")
    return frame
