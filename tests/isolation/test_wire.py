"""Frames, and what is believed of them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.isolation import message_validation
from penstock.isolation.child import outcome_from_json
from penstock.isolation.wire import MAX_FRAME, Unpacker, WireError, pack, receive

OUTCOME: dict[str, Any] = {
    "trigger": "succeed", "cause": "returned", "result": "1", "retryable": True, "delay": None, "note": None,
    "data": None, "failure": None,
}  # fmt: skip


def test_frames_come_out_as_they_went_in_however_they_are_cut() -> None:
    frames: list[dict[str, Any]] = [{"a": 1}, {}, {"text": "ä\u2028\x00"}]
    data = b"".join(pack(frame) for frame in frames)
    unpacker = Unpacker()

    found = [frame for index in range(len(data)) for frame in unpacker.feed(data[index : index + 1])]

    assert (found, unpacker.waiting) == (frames, 0)


def test_a_frame_that_is_not_complete_waits() -> None:
    unpacker = Unpacker()

    assert unpacker.feed(pack({"a": 1})[:-1]) == []
    assert unpacker.waiting > 0


def test_a_length_beyond_the_cap_is_refused_before_anything_of_it_is_kept() -> None:
    with pytest.raises(WireError, match="announced"):
        Unpacker().feed((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(WireError, match="too long"):
        pack({"text": "x" * MAX_FRAME})


@pytest.mark.parametrize("body", [b"hello", b"[]", b"5", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_no_frame(body: bytes) -> None:
    with pytest.raises(WireError):
        Unpacker().feed(len(body).to_bytes(4, "big") + body)


def test_the_end_of_the_line_is_no_frame() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(pack({"a": 1}) + pack({"b": 2})[:-1])
        theirs.shutdown(socket.SHUT_WR)

        assert receive(ours.fileno()) == {"a": 1}
        assert receive(ours.fileno()) is None


def test_an_outcome_is_believed_when_it_could_be_true() -> None:
    told = outcome_from_json(OUTCOME)

    assert (told.trigger, told.cause, told.result) == ("succeed", "returned", "1")


@pytest.mark.parametrize(
    "lie",
    [
        {"trigger": "cancel"},
        {"trigger": "lose"},
        {"trigger": "release"},
        {"trigger": "nonsense"},
        {"cause": "nonsense"},
        {"result": "{"},
        {"result": 5},
        {"result": '"' + "x" * 1024 * 1024 + '"'},
        {"delay": -1},
        {"delay": 10**30},
        {"delay": "soon"},
        {"failure": {"type": "x"}},
        {"failure": 5},
    ],
)
def test_an_outcome_that_cannot_be_is_refused(lie: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        outcome_from_json({**OUTCOME, **lie})


def test_texts_are_made_fit_for_every_store() -> None:
    assert message_validation.text("a\x00b\ud800") == "a\ufffdb\ufffd"
    assert len(message_validation.text("x" * 100_000)) <= message_validation.LONGEST_LINE
    assert (
        message_validation.maybe_text(None),
        message_validation.maybe_name(None),
        message_validation.json_text(None),
    ) == (None, None, None)


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), "x", None, [], 10**400])
def test_a_percentage_is_a_number(percent: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        message_validation.percent(percent)


def test_a_percentage_is_kept_within_bounds() -> None:
    assert [message_validation.percent(each) for each in (-5, 50, 1e300)] == [0.0, 50.0, 100.0]


@pytest.mark.parametrize("name", ["", "x" * 201, 5, ["x"], True])
def test_a_name_is_a_short_text(name: Any) -> None:
    with pytest.raises(ValueError, match="is no name"):
        message_validation.name(name)


@pytest.mark.parametrize("position", [-1, 10_000, 1.5, "1", True])
def test_a_position_is_a_small_number(position: Any) -> None:
    with pytest.raises(ValueError, match="is no position"):
        message_validation.position(position)
