"""Parsers of bytes from outside, fed with a corpus and with changes of it.

What must hold: no error but the documented one, and work that grows with the input alone, counted in lines of Python.
A failure names its input: `mutated(kind, number)` gives it again. Keep such an input as a file of the corpus.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock import Penstock
from penstock.domain import payload
from penstock.domain.errors import InvalidPayload, InvalidSchedule
from penstock.domain.schedule import cron
from penstock.isolation.child import outcome_from_json
from penstock.isolation.wire import MAX_FRAME, Unpacker, WireError
from tests.fuzz.mutation import mutated, seeds
from tests.http.raw import GOOD, RawServer, request, statuses

pytestmark = pytest.mark.xdist_group("fuzz")

_NOW = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_ZONE = ZoneInfo("Europe/Berlin")


def frames(data: bytes) -> None:
    """However the bytes are cut, the same frames come out or the same error."""
    assert _unpacked([data]) == _unpacked([data[at : at + 7] for at in range(0, len(data), 7)])
    for each in _unpacked([data])[0]:
        try:
            outcome_from_json(each)
        except (ValueError, KeyError, TypeError):
            continue


def _unpacked(pieces: list[bytes]) -> tuple[list[Any], bool]:
    unpacker, found = Unpacker(), []
    try:
        for piece in pieces:
            found += unpacker.feed(piece)
    except WireError:
        # What came before the fault in the same piece is lost with it: the attempt ends in any case.
        return [], True
    assert unpacker.waiting <= MAX_FRAME + 4
    assert all(isinstance(each, dict) for each in found)
    return found, False


def json_door(data: bytes) -> None:
    """What is let in can be written again and means the same."""
    try:
        value = payload.decode(data)
    except InvalidPayload:
        return
    assert payload.decode(payload.encode(value)) == value


def cron_expression(data: bytes) -> None:
    """What is let in says when it fires, and never goes back in time."""
    try:
        found = cron.parse(data.decode("latin-1"))
    except InvalidSchedule:
        return
    moment: int | None = _NOW
    for _ in range(3):
        after = moment
        moment = found.next(after, _ZONE) if after is not None else None
        assert moment is None or after is None or moment > after
    assert found.sentence()


PARSERS: dict[str, Callable[[bytes], None]] = {"frames": frames, "json": json_door, "cron": cron_expression}


@pytest.mark.parametrize("kind", PARSERS)
def test_the_corpus_meets_no_error_but_the_documented_one(kind: str) -> None:
    found = seeds(kind)

    for name, data in found.items():
        try:
            PARSERS[kind](data)
        except Exception as error:
            raise AssertionError(f"{kind}/{name}: {error!r}") from error
    assert len(found) >= 10


@pytest.mark.parametrize("kind", PARSERS)
def test_changes_of_the_corpus_meet_no_error_but_the_documented_one(kind: str, counts: Callable[..., int]) -> None:
    for number in range(counts(ci=1500, soak=100_000)):
        data = mutated(kind, number)
        try:
            PARSERS[kind](data)
        except Exception as error:
            raise AssertionError(f"mutated({kind!r}, {number}): {data[:200]!r}: {error!r}") from error


def test_http_heads_are_answered_or_closed_and_the_server_goes_on(tmp_path: Path, counts: Callable[..., int]) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")

    @app.job("work")
    def work(text: str) -> None: ...

    work.enqueue("first")
    server = RawServer(app)
    try:
        inputs = {f"http/{name}": data for name, data in seeds("http").items()}
        numbers = range(counts(ci=200, soak=20_000))
        inputs |= {f"mutated('http', {number})": mutated("http", number) for number in numbers}
        for name, data in inputs.items():
            found = statuses(server.answer(data))
            assert [each for each in found if each >= 500 and each not in (501, 505)] == [], f"{name}: {data!r}"

        assert server.start_job()
        assert statuses(server.answer(request(body=GOOD))) == [201]
    finally:
        server.stop()


class _Steps:
    """Counts the lines of Python that a call takes in penstock."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "/penstock/" not in frame.f_code.co_filename:
            return None
        self.count += event == "line"
        return self


def steps(call: Callable[[], object]) -> int:
    seen, before = _Steps(), sys.gettrace()
    sys.settrace(seen)
    try:
        call()
    except (WireError, InvalidPayload, InvalidSchedule):
        pass
    finally:
        sys.settrace(before)
    return seen.count


def _many_frames(size: int) -> bytes:
    return b"\x00\x00\x00\x02{}" * (size // 6)


def _one_frame(body: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def made(size: int) -> bytes:
        data = body(size)
        return len(data).to_bytes(4, "big") + data

    return made


GROWING: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "many frames": ("frames", _many_frames),
    "a frame of lists": ("frames", _one_frame(lambda size: b"[" * size)),
    "a long list": ("json", lambda size: b"[" + b"1," * (size // 2) + b"1]"),
    "many keys": ("json", lambda size: json.dumps({f"k{number}": 1 for number in range(size // 10)}).encode()),
    "the same key": ("json", lambda size: b"{" + b'"a":1,' * (size // 6) + b'"a":1}'),
    "a long number": ("json", lambda size: b"9" * size),
    "backslashes": ("json", lambda size: b'"' + b"\\\\" * (size // 2) + b'"'),
    "a long text of escapes": ("json", lambda size: b'"' + b"\\u0041" * (size // 6) + b'"'),
    "brackets in texts": ("json", lambda size: b"[" + b'"[[[",' * (size // 6) + b"1]"),
    "a long cron list": ("cron", lambda size: b"0," * (size // 2) + b"0 * * * *"),
    "cron ranges": ("cron", lambda size: b"0-59/1," * (size // 7) + b"0 * * * *"),
}


@pytest.mark.parametrize("what", GROWING)
def test_the_work_grows_with_the_input_alone(what: str) -> None:
    kind, made = GROWING[what]
    size = 200 if kind == "cron" else 20_000

    half, whole = (steps(partial(PARSERS[kind], made(each))) for each in (size, 2 * size))

    assert half > 0
    assert whole <= 2.5 * half + 500
