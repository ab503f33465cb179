"""Ids: canonical, rising within a process, telling their time."""

import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import InvalidInput
from penstock.domain.ids import IdSource, id_time_ms, is_id, parse_id, parse_uuid

KNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"

moments = st.integers(-1000, 2**48 - 100_000)


class Clock:
    """A clock that says what it is told, and then goes on saying the last of it."""

    def __init__(self, *readings: int) -> None:
        self.readings = list(readings)

    def __call__(self) -> int:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def source(*readings: int) -> IdSource:
    return IdSource(Clock(*readings), os.urandom)


@given(st.lists(st.tuples(moments, st.integers(1, 20)), min_size=1, max_size=50))
def test_ids_rise_strictly_whatever_the_clock_does(readings):
    ids = source(*(moment for moment, _ in readings))

    made: list[str] = []
    for _, n in readings:
        made += ids.many(n) if n > 1 else [ids.new_id()]

    assert all(one < next_one for one, next_one in pairwise(made))
    assert all(is_id(one) for one in made)


@given(st.integers(1, 2**48 - 1))
def test_an_id_tells_the_time_it_was_made_at(moment):
    assert id_time_ms(source(moment).new_id()) == moment
    assert id_time_ms(source(0).new_id(now_ms=moment)) == moment
    assert id_time_ms(source(moment).many(3)[2]) == moment


def test_an_id_is_a_uuid_of_version_7_in_canonical_form():
    for made in source(1_700_000_000_000).many(200):
        parsed = uuid.UUID(made)

        assert str(parsed) == made
        assert parsed.version == 7
        assert parsed.variant == uuid.RFC_4122


def test_the_counter_carries_into_the_time_when_one_millisecond_is_not_enough():
    made = source(1000).many(10_000)

    assert sorted(set(made)) == made
    assert id_time_ms(made[4095]) == 1000
    assert id_time_ms(made[4096]) == 1001
    assert id_time_ms(made[-1]) == 1002


def test_a_clock_that_goes_back_does_not_take_the_ids_with_it():
    ids = source(2000, 1000, 1999, 2001)

    assert [id_time_ms(ids.new_id()) for _ in range(4)] == [2000, 2000, 2000, 2001]


def test_all_62_random_bits_are_used():
    lowest = IdSource(Clock(1), lambda n: b"\x00" * n)
    highest = IdSource(Clock(1), lambda n: b"\xff" * n)

    assert lowest.new_id().endswith("-8000-000000000000")
    assert highest.new_id().endswith("-bfff-ffffffffffff")
    assert {made[19] for made in source(1).many(1000)} == set("89ab")


def test_random_bytes_are_fetched_anew_for_each_call_so_that_a_forked_copy_differs():
    asked: list[int] = []

    def random_bytes(n: int) -> bytes:
        asked.append(n)
        return os.urandom(n)

    ids = IdSource(Clock(1), random_bytes)
    ids.new_id()
    ids.new_id()
    ids.many(5)

    assert asked == [8, 8, 40]


def test_no_ids_at_once_is_an_empty_list():
    assert source(1).many(0) == []


def test_threads_share_a_source_and_each_sees_its_ids_rise():
    ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            batches = list(pool.map(lambda _: [ids.new_id() for _ in range(5000)], range(8)))
    finally:
        sys.setswitchinterval(switching)

    assert all(batch == sorted(batch) for batch in batches)
    ticks = [made[:18] for batch in batches for made in batch]
    assert len(set(ticks)) == len(ticks) == 40_000


def test_an_id_in_upper_case_is_understood():
    assert parse_id(KNOWN) == KNOWN
    assert parse_id(KNOWN.upper()) == KNOWN
    assert not is_id(KNOWN.upper())


@pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", "urn:uuid:{%s}", "%s"])
def test_every_way_to_write_the_id_of_something_looked_for_is_understood(form):
    for written in (form % KNOWN, (form % KNOWN).upper(), form % KNOWN.replace("-", "")):
        assert parse_uuid(written) == KNOWN


@pytest.mark.parametrize("other", [KNOWN.replace("-774b", "-474b"), KNOWN.replace("-bcce", "-ccce")])
def test_a_uuid_of_another_version_is_read_and_is_no_id_of_ours(other):
    assert parse_uuid(other.upper()) == other
    assert not is_id(other)


@pytest.mark.parametrize(
    "text", ["", "x", "{" + KNOWN, KNOWN + "}", "urn:" + KNOWN, KNOWN + "\n", KNOWN[:-1], KNOWN.replace("-", "", 1)]
)
def test_what_is_no_uuid_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_uuid(text)


@pytest.mark.parametrize(
    "text",
    [
        *["", "0", "-1", "1.0", "1e3", "x" * 10_000, "../" + KNOWN, KNOWN + "'", "%", "_"],
        *[
            "{" + KNOWN + "}",
            "urn:uuid:" + KNOWN,
            KNOWN.replace("-", ""),
            KNOWN + "\n",
            " " + KNOWN,
            KNOWN[:-1],
        ],
        *[KNOWN.replace("-774b", "-474b"), KNOWN.replace("-bcce", "-ccce"), KNOWN.replace("0", "０")],
        *[KNOWN.replace("a", "g"), KNOWN.replace("-", "_"), KNOWN[:35] + "\0"],
    ],
)
def test_what_is_no_id_is_refused_and_named(text):
    assert not is_id(text)
    with pytest.raises(InvalidInput) as caught:
        parse_id(text)

    assert repr(text[:80]) in str(caught.value)
    assert len(str(caught.value)) < 500
