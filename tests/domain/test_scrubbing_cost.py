"""What the search for secret values costs: it grows with the text and the secrets, whoever wrote them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from penstock.domain.secrets import scrubbing
from penstock.domain.secrets.policy import Scrubber, SecretPolicy

HALF = 20_000


class _Steps:
    """Counts the lines of Python that a call takes in the modules of `core`."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "penstock/core" not in frame.f_code.co_filename:
            return None
        self.count += event == "line"
        return self


def steps(call: Callable[[], object]) -> int:
    seen, before = _Steps(), sys.gettrace()
    sys.settrace(seen)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen.count


def heads_alike(size: int) -> tuple[list[str], str]:
    """Many secrets of many lengths that begin alike, and a text that is nothing but beginnings."""
    return ["a" * length + "b" for length in range(4, 4 + size // 100)], "a" * size


def prefixes_of_one(size: int) -> tuple[list[str], str]:
    return ["a" * (size // 2) + "b"], "a" * size


def secrets_everywhere(size: int) -> tuple[list[str], str]:
    return ["abab", "ababab", "ab" * 40], "ab" * (size // 2)


def cuts_everywhere(size: int) -> tuple[list[str], str]:
    return ["a" * (size // 4) + "b"], ("a" * 30 + "… [cut, 1 characters more]") * (size // 56)


def many_secrets(size: int) -> tuple[list[str], str]:
    return [f"aaaa{number:06d}" for number in range(size // 10)], "aaaa0" * (size // 5)


CRAFTED = [heads_alike, prefixes_of_one, secrets_everywhere, cuts_everywhere, many_secrets]


@pytest.mark.parametrize("craft", CRAFTED)
@pytest.mark.parametrize("way", ["make", "clean", "json", "pieces", "unfinished"])
def test_twice_the_text_and_twice_the_secrets_take_about_twice_the_steps(
    craft: Callable[[int], tuple[list[str], str]], way: str
) -> None:
    def count(size: int) -> int:
        secrets, text = craft(size)
        scrubber = Scrubber(secrets)
        calls: dict[str, Callable[[], object]] = {
            "make": lambda: Scrubber(secrets),
            "clean": lambda: scrubber.clean(text),
            "json": lambda: scrubber.clean_json(json.dumps([text, {text[:50]: text[50:]}])),
            "pieces": lambda: _feed(scrubber, text, 97),
            "unfinished": lambda: scrubber.unfinished(text),
        }
        return steps(calls[way])

    few, many = count(HALF), count(2 * HALF)

    assert many < 2.5 * few + 1_000


def _feed(scrubber: Scrubber, text: str, size: int) -> None:
    stream = scrubber.stream()
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
    stream.end()


# At sizes that took minutes: the comparisons themselves count no steps.


def test_forty_kilobytes_of_crafted_parameters_are_scrubbed() -> None:
    params = json.dumps({"password": [f"aaaa{number:05d}" for number in range(3_000)]})
    assert len(params) < 41_000
    scrubber = SecretPolicy().scrubber((), params)

    for _ in range(20):
        assert scrubber.clean("a" * 64_000) == "a" * 64_000


def test_five_thousand_values_are_looked_for_in_a_line() -> None:
    scrubber = Scrubber([f"secret-{number:05d}-" + "x" * (number % 50) for number in range(5_000)])

    for _ in range(50):
        assert scrubber.clean("secret-" * 1_100) == "secret-" * 1_100


def test_the_beginnings_of_a_very_long_secret_are_told_from_it() -> None:
    secret = "ab" * 450_000 + "c"
    scrubber = Scrubber([secret])

    for _ in range(100):
        assert scrubber.unfinished("ab" * 128_000) < 256_000
    assert scrubber.clean(f"it is {secret}!") == "it is ***!"
    assert _streamed(scrubber, f"it is {secret}!", 1_000) == "it is ***!"


def test_a_secret_that_was_printed_byte_by_byte_is_hidden_as_one() -> None:
    secret = "".join(f"{number:04d}" for number in range(2_500))

    assert _streamed(Scrubber([secret]), f"<{secret}>" * 20, 1) == "<***>" * 20


def test_of_a_very_long_secret_long_parts_are_hidden() -> None:
    secret = "".join(f"{number:06d}" for number in range(100_000))
    scrubber = Scrubber([secret])

    shown = scrubber.clean(f"see {secret[200_003:200_403]} there")

    assert shown.count("***") == 1
    assert len(shown) < len("see *** there") + 2 * 15


@pytest.mark.parametrize("size", [1, 5, 16, 1_000])
def test_a_very_long_secret_in_pieces_is_hidden_as_one(size: int) -> None:
    secret = "".join(f"{number:06d}" for number in range(10_000))

    assert _streamed(Scrubber([secret]), f"<{secret}> and <{secret}", size) == "<***> and <***"


def test_of_secrets_beyond_all_measure_nothing_at_all_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubbing, "_MOST_CHARACTERS", 10_000)
    scrubber = Scrubber(["x" * 10_001])

    assert scrubber
    assert scrubber.clean("any text") == "***"
    assert scrubber.clean("") == ""
    assert json.loads(scrubber.clean_json('{"a": ["b", 1, true, null]}')) == {"***": ["***", "***", True, None]}
    assert scrubber.clean_result('{"a": 1}') == '{"a": 1}'
    assert scrubber.clean_result(json.dumps("x" * 10_001)) == '"***"'
    assert _streamed(scrubber, "one\ntwo\n", 3) == "***"


def _streamed(scrubber: Scrubber, text: str, size: int) -> str:
    def parts() -> Iterator[str]:
        for at in range(0, len(text), size):
            yield stream.feed(text[at : at + size])
        yield stream.end()

    stream = scrubber.stream()
    return "".join(parts())
