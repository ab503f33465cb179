"""Retry policies: how long to wait, and which policies there are not."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import InvalidInput
from penstock.domain.retry import MAX_DELAY, Backoff, Fixed, RetryPolicy, Steps, backoff_from, from_json

seconds = st.floats(0, MAX_DELAY) | st.integers(0, int(MAX_DELAY))
fractions = st.floats(0, 1, exclude_max=True)
backoffs = st.builds(Backoff, base=seconds, max=seconds, jitter=st.floats(0, 1))
policies: st.SearchStrategy[RetryPolicy] = (
    backoffs | st.builds(Fixed, seconds) | st.builds(Steps, st.lists(seconds, min_size=1))
)


@given(backoffs, st.integers(0, 40), fractions)
def test_a_backoff_stays_within_its_bounds(policy, failures, random):
    step = policy.base * 2**failures

    delay = policy.delay(failures, random)

    assert min(policy.max, step) <= delay <= min(policy.max, step * (1 + policy.jitter) * (1 + 1e-12))


@given(backoffs, st.integers(0, 100), fractions)
def test_a_backoff_never_waits_less_after_one_failure_more(policy, failures, random):
    assert policy.delay(failures, random) <= policy.delay(failures + 1, random)


@given(policies, st.integers(0, 10_000) | st.sampled_from([10_000, 10**9, 2**63]), fractions)
def test_no_number_of_failures_overflows(policy, failures, random):
    assert 0 <= policy.delay(failures, random) <= MAX_DELAY


def test_the_default_backoff_doubles_from_five_seconds_up_to_an_hour():
    policy = Backoff()

    assert [policy.delay(n, 0.0) for n in range(5)] == [5, 10, 20, 40, 80]
    assert policy.delay(2, 0.5) == pytest.approx(22)
    assert policy.delay(10_000, 0.999) == 3600


def test_jitter_is_added_before_the_maximum_is_applied():
    assert Backoff(base=10, max=11, jitter=1).delay(0, 0.5) == 11


def test_a_fixed_policy_always_waits_the_same():
    assert [Fixed(7).delay(n, 0.9) for n in (0, 1, 10_000)] == [7, 7, 7]


def test_the_last_step_repeats():
    assert [Steps([1, 2.5, 60]).delay(n, 0.9) for n in (0, 1, 2, 3, 10_000)] == [1, 2.5, 60, 60, 60]


def test_an_option_becomes_the_policy_it_means():
    assert backoff_from(5) == Fixed(5)
    assert backoff_from(0.5) == Fixed(0.5)
    assert backoff_from(0) == Fixed(0)
    assert backoff_from([1, 2]) == backoff_from((1, 2)) == Steps([1, 2])
    assert backoff_from(MAX_DELAY) == Fixed(MAX_DELAY)
    for policy in (Backoff(base=1), Fixed(1), Steps([1])):
        assert backoff_from(policy) is policy


@pytest.mark.parametrize(
    "value",
    [
        *[-1, -0.001, math.nan, math.inf, True, False, None, "5", "", b"5", {}, {1}, object(), 1j],
        *[MAX_DELAY + 1, 10**400, [], (), [1, -1], [1, math.nan], [True], ["1"], [[1]], [MAX_DELAY * 2]],
    ],
)
def test_an_option_that_means_no_policy_is_refused(value: Any):
    with pytest.raises(InvalidInput, match=r"must be .*, not "):
        backoff_from(value)


@pytest.mark.parametrize(
    "options",
    [
        *[{"base": -1}, {"base": math.nan}, {"base": True}, {"base": "5"}, {"base": MAX_DELAY + 1}],
        *[
            {"max": -1},
            {"max": math.inf},
            {"max": None},
            {"jitter": -0.1},
            {"jitter": 1.1},
            {"jitter": math.nan},
        ],
    ],
)
def test_a_backoff_with_a_wrong_part_is_refused_and_the_part_named(options: dict[str, Any]):
    (name,) = options

    with pytest.raises(InvalidInput, match=f"{name} must be"):
        Backoff(**options)


def test_a_wrong_step_is_named_by_its_place():
    with pytest.raises(InvalidInput, match=r"seconds\[1\] must be a number of seconds between 0 and 30 days, not -2"):
        backoff_from([1, -2])


@given(policies)
def test_a_policy_comes_back_from_json_the_same(policy):
    assert from_json(json.loads(json.dumps(policy.to_json()))) == policy


@given(policies)
def test_a_policy_can_be_compared_and_hashed(policy):
    assert len({policy, from_json(policy.to_json())}) == 1


@pytest.mark.parametrize(
    "value",
    [
        *[
            None,
            5,
            "fixed",
            [],
            {},
            {"kind": "other"},
            {"kind": None},
            {"kind": ["fixed"]},
            {"kind": "fixed"},
        ],
        *[{"kind": "fixed", "seconds": -1}, {"kind": "fixed", "seconds": 1, "more": 2}, {"seconds": 1}],
        *[
            {"kind": "steps", "seconds": []},
            {"kind": "steps", "seconds": 5},
            {"kind": "steps", "seconds": "12"},
        ],
        *[{"kind": "backoff", "base": 1}, {"kind": "backoff", "base": 1, "max": "x", "jitter": 0}],
        *[{"kind": "fixed", 1: 2}],
    ],
)
def test_json_that_is_no_policy_is_refused(value):
    with pytest.raises(InvalidInput, match="must be"):
        from_json(value)
