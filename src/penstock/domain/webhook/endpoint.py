"""Webhooks: who wants to be told of what, what is sent, and what an answer means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches

from penstock.domain import event as kinds
from penstock.domain import job_json
from penstock.domain.attempt import Phase
from penstock.domain.errors import InvalidInput
from penstock.domain.event import Event
from penstock.domain.instant import SECOND, from_datetime
from penstock.domain.job import Job

DEFAULT_EVENTS = (kinds.SUCCEEDED, kinds.FAILED, kinds.RETRYING, kinds.CANCELLED, kinds.STALE)
GROUPS: dict[str, tuple[str, ...]] = {
    "onStart": (kinds.STARTED,),
    "onSuccess": (kinds.SUCCEEDED,),
    "onFail": (kinds.FAILED,),
    "onEnd": (kinds.SUCCEEDED, kinds.FAILED, kinds.CANCELLED),
}
"""Names that stand for several event types."""

GLOBAL, OF_JOB = "global", "job"
"""The endpoints that are none: the URL of the settings, and the one that a job brings along."""

USER_AGENT = "penstock-webhooks"
"""By this name senders are known; servers of ours take nothing from them."""

TEST = "webhook.test"
"""What an endpoint is sent to try it out."""

WAITING, DELIVERED, FAILED = "waiting", "delivered", "failed"
STATUSES = (WAITING, DELIVERED, FAILED)

EXCERPT = 1024
_LONGEST_RETRY_AFTER = 86_400.0
_LONGEST_PAUSE = 600.0
_MOST_FILTERS = 100
_NEVER = "job.webhook."
"""Events about webhooks make no webhooks."""
_OURS = ("job.", "schedule.", "worker.", "alert.")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

Mask = Callable[[Sequence[str], str], str]
"""Gives parameters without what is secret in them: the definition's secret fields, and the text."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A receiver that asked to be told; its secrets are never read back, only how they end."""

    id: str
    url: str
    description: str
    events: tuple[str, ...]
    """As they were asked for: types, patterns such as `job.*`, groups such as `onEnd`."""
    definition_keys: tuple[str, ...]
    """Only of jobs of these definitions; empty: of all."""
    enabled: bool
    secret_hints: tuple[str, ...]
    """The last four characters of each secret that is valid, the newest first."""
    previous_secret_until: datetime | None
    """Until when the secret before this one signs, too."""
    disabled_reason: str | None
    failures: int
    """How many tries in a row have failed, of all its deliveries."""
    open_until: datetime | None
    """Until when nothing is sent to it, because it failed too often."""
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime
    revision: int


@dataclass(frozen=True, slots=True)
class EndpointDraft:
    """What an endpoint shall be; everything is checked."""

    id: str
    url: str
    description: str = ""
    events: tuple[str, ...] = DEFAULT_EVENTS
    definition_keys: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one receiver."""

    id: str
    """The `webhook-id` of every try."""
    webhook_id: str
    """The endpoint's id, or `global`, or `job`."""
    url: str
    type: str
    job_id: str | None
    status: str
    tries: int
    due_at: datetime
    created_at: datetime
    finished_at: datetime | None
    status_code: int | None
    """Of the last answer."""
    error: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a delivery: what came back."""

    number: int
    at: datetime
    duration: float
    status_code: int | None
    error: str | None
    excerpt: str | None


@dataclass(frozen=True, slots=True)
class DeliveryDetail:
    """A delivery with its body and all its tries."""

    delivery: Delivery
    body: str
    tries: list[Try]


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """One page of deliveries, the newest first; `cursor` goes on behind it, None says that this was the last."""

    deliveries: list[Delivery]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DeliveryTask:
    """A delivery that a sender has just got, with all it takes to send it."""

    id: str
    endpoint: str
    url: str
    body: str
    number: int
    """Which try this is of all; also the right to say how it ended."""
    round: int
    """Which try this is since it was last begun."""
    failures: int
    """Of its receiver, in a row."""
    secrets: tuple[str, ...] = field(default=(), repr=False, kw_only=True)
    """The endpoint's valid secrets; none for URLs that are signed with the global one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one try: a status, or an error in its place."""

    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    retry_after: str | None = None
    duration: float = 0.0
    hopeless: bool = False
    """The URL may not be sent to: another try would end the same way."""


@dataclass(frozen=True, slots=True)
class DeliveryDecision:
    """What follows from an answer."""

    status: str
    delay: float = 0.0
    """Seconds until the next try, while it waits."""
    disable: bool = False
    """The receiver does not want to be told anything any more."""
    unwell: bool = False
    """The receiver counts as failing."""
    pause: float = 0.0
    """Seconds for which the receiver is left alone."""


@dataclass(frozen=True, slots=True)
class DeliveryOutlook:
    """Whether anybody asks to be told, and when the next delivery is due."""

    asked: bool
    due_at: int | None
    now: int


@dataclass(frozen=True, slots=True)
class FanoutReport:
    """What came of one look at the feed."""

    made: int
    more: bool
    restarted: bool = False
    """Events had been deleted before they were read; it goes on with what is left."""


def check_events(names: Iterable[str]) -> tuple[str, ...]:
    """Event types as an endpoint may ask for them; of penstock's own, one that does not exist is refused."""
    wanted = tuple(dict.fromkeys(names))
    if not 1 <= len(wanted) <= _MOST_FILTERS:
        raise InvalidInput(f"An endpoint asks for 1 to {_MOST_FILTERS} event types, not {len(wanted)}.")
    for name in wanted:
        _check_type(name)
    return wanted


def wants(asked: Sequence[str], type: str) -> bool:
    """Whether an endpoint that asked for these types is told of this one."""
    if type.startswith(_NEVER):
        return False
    return any(
        type == each or type in GROUPS.get(each, ()) or (each.endswith("*") and type.startswith(each[:-1]))
        for each in asked
    )


def message_id(endpoint: str, event: Event) -> str:
    """The id of the delivery of an event to an endpoint: whoever makes it, it is the same."""
    what = f"{endpoint}\n{event.seq}\n{event.type}\n{event.at.isoformat()}\n{event.job_id or event.subject}"
    return f"msg_{hashlib.sha256(what.encode()).hexdigest()[:32]}"


def body(message: str, event: Event, job: Job | None, params: str | None = None, phases: Sequence[Phase] = ()) -> str:
    """What is sent: the same bytes at every try. `params` stand in for the job's own."""
    facts = {"id": message, "type": event.type, "timestamp": job_json.iso(event.at)}
    told: dict[str, object] = {}
    if event.job_id is None:
        told["subject"] = event.subject
    elif job is not None:
        told = job_json.event_facts(event)
    else:
        told["deletedJobId"] = event.job_id
    data = job_json.spliced(
        told,
        {
            "job": None if job is None else job_json.job_text(job, params=params, phases=job_json.phases_text(phases)),
            "details": event.data_text,
        },
    )
    return job_json.spliced(facts, {"data": data})


def decide_delivery(
    answer: Answer, number: int, retries: Sequence[float], *, failures: int = 0, most_failures: int = 5,
    pause: float = 30.0, random: float = 0.5, now: datetime | None = None,
) -> DeliveryDecision:  # fmt: skip
    """What follows from the answer to try `number`; `failures` are those of the receiver before it."""
    code = answer.status_code
    if answer.error is None and code is not None:
        if 200 <= code < 300:
            return DeliveryDecision(DELIVERED)
        if code == 410:
            return DeliveryDecision(FAILED, disable=True)
        if code not in (408, 429) and code < 500:
            return DeliveryDecision(FAILED)
    if answer.hopeless:
        return DeliveryDecision(FAILED)
    unwell = failures + 1
    rest = min(_LONGEST_PAUSE, pause * 2.0 ** min(unwell - most_failures, 10)) if unwell >= most_failures else 0.0
    if number > len(retries):
        return DeliveryDecision(FAILED, unwell=True, pause=rest)
    delay = retries[number - 1] * (0.9 + 0.2 * random)
    if code in (429, 503):
        delay = max(delay, retry_after(answer.retry_after, now))
    return DeliveryDecision(WAITING, delay=delay, unwell=True, pause=rest)


def retry_after(text: str | None, now: datetime | None) -> float:
    """The seconds that a Retry-After header asks for, a day at most; 0 when it cannot be read."""
    if text is None:
        return 0.0
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_RETRY_AFTER)
    if now is None:
        return 0.0
    # Rarely needed, and slow to load.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    seconds = (from_datetime(moment, "Retry-After") - from_datetime(now, "now")) / SECOND
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)


def excerpt(data: bytes) -> str | None:
    """The beginning of an answer as text that is safe to keep and to show: 1 kB at most."""
    text = readable(data[: 4 * EXCERPT].decode(errors="replace"))
    return text.encode()[:EXCERPT].decode(errors="ignore") or None


def readable(text: str) -> str:
    """Text of somebody else's without what hides or moves other text."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _check_type(name: object) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or readable(name) != name:
        raise InvalidInput(f"{name!r:.80} is no event type.", hint='Write "job.failed", "job.*", "onEnd" or "*".')
    start = name.removesuffix("*")
    if name in GROUPS or name == "*":
        return
    if "*" in start or (start != name and not start.endswith(".")) or "." not in name:
        raise InvalidInput(f"{name!r:.80} is no event type.", hint='Write "job.failed", "job.*", "onEnd" or "*".')
    if start.startswith(_NEVER):
        raise InvalidInput(f"{name!r:.80} cannot be asked for.", hint="Webhooks about webhooks would never end.")
    if start.startswith(_OURS) and not any(
        each == name or (start != name and each.startswith(start)) for each in kinds.TYPES
    ):
        near = get_close_matches(name, kinds.TYPES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(kinds.TYPES)}."
        raise InvalidInput(f"There is no event {name!r:.80}.", hint=hint)
