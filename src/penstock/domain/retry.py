"""Retry policies: how long a job waits before its next attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeGuard

from penstock.domain.errors import InvalidInput

MAX_DELAY = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits twice as long after each failure, up to `max` seconds, with up to `jitter` of it on top."""

    kind: ClassVar[str] = "backoff"
    base: float = 5
    max: float = 3600
    jitter: float = 0.2

    def __post_init__(self) -> None:
        _check_seconds(self.base, "base")
        _check_seconds(self.max, "max")
        _check_number(self.jitter, "jitter", 1, "a part between 0 and 1")

    def delay(self, failures: int, random: float) -> float:
        """Seconds to wait after that many earlier failures (0: this was the first); `random` is in [0, 1)."""
        # Doubling a thousand times is past any limit already, and a float can still hold it.
        step = self.base * 2.0 ** min(max(failures, 0), 1000)
        return min(self.max, step + step * self.jitter * random)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "base": self.base, "max": self.max, "jitter": self.jitter}


@dataclass(frozen=True, slots=True)
class Fixed:
    """Waits the same number of seconds after every failure."""

    kind: ClassVar[str] = "fixed"
    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds, "seconds")

    def delay(self, failures: int, random: float) -> float:
        """Seconds to wait, always the same."""
        return self.seconds

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Steps:
    """Waits the seconds listed, one after the other; the last one repeats."""

    kind: ClassVar[str] = "steps"
    seconds: Sequence[float]

    def __post_init__(self) -> None:
        if not _is_list(self.seconds) or not self.seconds:
            raise _wrong("seconds", "a list of at least one number of seconds", self.seconds)
        for index, seconds in enumerate(self.seconds):
            _check_seconds(seconds, f"seconds[{index}]")
        object.__setattr__(self, "seconds", tuple(self.seconds))

    def delay(self, failures: int, random: float) -> float:
        """Seconds to wait after that many earlier failures (0: this was the first)."""
        return self.seconds[min(max(failures, 0), len(self.seconds) - 1)]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "seconds": list(self.seconds)}


RetryPolicy = Backoff | Fixed | Steps


def backoff_from(value: float | Sequence[float] | RetryPolicy) -> RetryPolicy:
    """The policy that a definition's `backoff` option means."""
    if isinstance(value, Backoff | Fixed | Steps):
        return value
    if _is_list(value):
        return Steps(value)
    if _is_number(value):
        return Fixed(value)
    raise _wrong("backoff", "a number of seconds, a list of them, or Backoff(base=, max=, jitter=)", value)


def from_json(value: object) -> RetryPolicy:
    """The policy that `to_json()` wrote."""
    if not isinstance(value, Mapping):
        raise _wrong("a retry policy", "an object", value)
    given = dict(value)
    kind = given.pop("kind", None)
    policy = _KINDS.get(kind) if isinstance(kind, str) else None
    if policy is None:
        raise _wrong("kind", " or ".join(repr(known) for known in _KINDS), kind)
    names = {field.name for field in fields(policy)}
    if set(given) != names:
        raise _wrong(f"the parts of kind {kind!r}", f"{sorted(names)}", list(given))
    return policy(**given)


_KINDS: dict[str, type[Backoff] | type[Fixed] | type[Steps]] = {
    policy.kind: policy for policy in (Backoff, Fixed, Steps)
}


def _check_seconds(value: object, what: str) -> None:
    _check_number(value, what, MAX_DELAY, "a number of seconds between 0 and 30 days")


def _check_number(value: object, what: str, most: float, wanted: str) -> None:
    if not _is_number(value) or not 0 <= value <= most:
        raise _wrong(what, wanted, value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _wrong(what: str, wanted: str, given: object) -> InvalidInput:
    return InvalidInput(f"Retry policy: {what} must be {wanted}, not {given!r:.100}.")
