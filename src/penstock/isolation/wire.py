"""Frames between a worker, its zygote and its jobs: a length, then JSON, never pickle; and jobs as JSON.

A frame from a job is not trusted: its length is capped and it must be an object, else `WireError`. A frame from a
worker to a job may be longer: it can hold the results of all phases.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from penstock.domain.job import Job
from penstock.domain.states import Status

Frame = dict[str, Any]

MAX_FRAME = 8 * 1024 * 1024
"""More than an escaped result of the greatest size, with its frame."""

MAX_ANSWER = 1 << 30
"""The longest frame from a worker to a job."""

FORKS_AT_ONCE = 16
"""How many forks a worker requests in one frame, with three descriptors for each."""

_HEAD = struct.Struct("!I")
_PIECE = 1 << 20
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


class WireError(Exception):
    """The bytes on a line are no valid frame."""


def pack(frame: Mapping[str, Any], longest: int = MAX_FRAME) -> bytes:
    return pack_text(_encode(frame), longest)


def pack_text(text: str, longest: int = MAX_FRAME) -> bytes:
    """A frame of ready JSON text."""
    body = text.encode()
    if len(body) > longest:
        raise WireError(f"A frame of {len(body)} bytes is too long; {longest} are allowed.")
    return _HEAD.pack(len(body)) + body


class Unpacker:
    """Makes frames from bytes as they come in."""

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
    """Write to a blocking descriptor."""
    while data:
        data = data[os.write(line, data) :]


def receive(line: int) -> Frame | None:
    """Wait for the next frame of the worker on a descriptor; None when the worker has gone."""
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


_TIMES = tuple(each.name for each in fields(Job) if each.name.endswith("_at") or each.name == "scheduled_for")


def job_to_json(job: Job) -> dict[str, Any]:
    """A job for a process of a job, which has no store."""
    facts = {each.name: getattr(job, each.name) for each in fields(job)}
    for name in _TIMES:
        facts[name] = None if facts[name] is None else facts[name].isoformat()
    return facts


def job_from_json(data: Mapping[str, Any]) -> Job:
    facts = dict(data)
    for name in _TIMES:
        facts[name] = None if facts[name] is None else datetime.fromisoformat(facts[name])
    facts["status"] = Status(facts["status"])
    facts["outcome"] = None if facts["outcome"] is None else Status(facts["outcome"])
    facts["tags"] = tuple(facts["tags"])
    return Job(**facts)
