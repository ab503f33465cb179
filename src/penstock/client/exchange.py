"""One request and what becomes of it: which failures may be tried again, and which error an answer means."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.domain import errors
from penstock.domain.errors import PenstockError, StoreUnavailable

T = TypeVar("T")

NOT_NOW = frozenset({429, 503})
"""Answers that say: not now. Of these the server has done nothing."""
LOST = frozenset({502, 504})
"""Answers of something in between: what the server has done nobody knows."""
_LONGEST_PAUSE = 10.0

_KINDS: dict[str, Callable[..., PenstockError]] = {
    kind.code: kind
    for kind in (
        errors.Unauthenticated, errors.Forbidden, errors.Conflict, errors.IdempotencyConflict, errors.RevisionConflict,
        errors.FeedGone, errors.InvalidInput, errors.InvalidPayload, errors.InvalidSchedule, errors.StoreFull,
    )
}  # fmt: skip
_KINDS |= dict.fromkeys(("malformed", "too_large", "target_too_long", "headers_too_large"), errors.InvalidInput)
_KINDS |= dict.fromkeys(("unavailable", "rate_limited", "too_many_streams", "timeout"), errors.StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the server."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    """Whether it does no harm to send it again when its answer was lost."""
    may_be_refused: bool = False
    """Whether an error answer is given back as it is, and not raised."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    repeated: bool = False
    """Whether the request was sent before, and that answer was lost."""

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


Talk = Generator[Asked, Answered, T]
"""A conversation with the server: what is asked goes out, what is answered comes in."""


def error_of(answer: Answered) -> PenstockError:
    """The library's error that an answer stands for."""
    try:
        told = json.loads(answer.body)["error"]
        code, message, hint = told["code"], told["message"], told["hint"]
        details: Mapping[str, Any] = told["details"]
    except (ValueError, KeyError, TypeError):
        text = answer.body[:200].decode(errors="replace")
        return StoreUnavailable(f"The server answered {answer.status}: {text!r}.", hint="Is this a penstock server?")
    if code == "not_found" and "kind" in details:
        return errors.NotFound(details["kind"], details["name"], hint=hint)
    if code == "unauthenticated":
        return errors.Unauthenticated()
    kind = _KINDS.get(code)
    if kind is None:
        return PenstockError(f"The server answered {answer.status} ({code}): {message}", hint=hint)
    more: dict[str, Any] = {}
    if kind is errors.InvalidPayload:
        more["path"] = details.get("path", "")
    elif issubclass(kind, errors.Conflict):  # type: ignore[arg-type]
        more["job_id"] = details.get("jobId")
    return kind(message, hint=hint, **more)


def may_ask_again(asked: Asked, status: int) -> bool:
    """Whether an answer is worth another try that does no harm."""
    return status in NOT_NOW or (status in LOST and asked.repeatable)


def pause_before(attempt: int, retry_after: str | None) -> float:
    """Seconds to wait before the next try, as the server wishes or by our own backoff."""
    if retry_after is not None and retry_after.isdigit() and len(retry_after) < 6:
        return min(60.0, float(retry_after))
    return min(_LONGEST_PAUSE, 0.1 * 2.0**attempt) * (0.5 + random.random() / 2)
