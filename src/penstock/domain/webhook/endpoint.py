"""Webhook endpoints and deliveries: event filters, message bodies, and decisions about answers."""

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
"""Groups of event types by name."""

GLOBAL, OF_JOB = "global", "job"
"""Pseudo endpoints: the URL of the settings, and a job's own URL."""

USER_AGENT = "penstock-webhooks"
"""The User-Agent of deliveries; our own servers refuse requests that have it."""

TEST = "webhook.test"
"""The type of a test delivery."""

WAITING, DELIVERED, FAILED = "waiting", "delivered", "failed"
STATUSES = (WAITING, DELIVERED, FAILED)

EXCERPT = 1024
_LONGEST_RETRY_AFTER = 86_400.0
_LONGEST_PAUSE = 600.0
_MOST_FILTERS = 100
_NEVER = "job.webhook."
"""Events about webhooks create no deliveries."""
_OURS = ("job.", "schedule.", "worker.", "alert.")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

Mask = Callable[[Sequence[str], str], str]
"""Masks secret parameters: takes the definition's secret fields and the text."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A receiver of events; its secrets are never read back, only their last characters."""

    id: str
    url: str
    description: str
    events: tuple[str, ...]
    """As requested: types, patterns such as `job.*`, groups such as `onEnd`."""
    definition_keys: tuple[str, ...]
    """Only events of jobs of these definitions; empty: of all."""
    enabled: bool
    secret_hints: tuple[str, ...]
    """The last four characters of each secret that is valid, the newest first."""
    previous_secret_until: datetime | None
    """Until when the previous secret signs as well."""
    disabled_reason: str | None
    failures: int
    """Consecutive failed tries, over all its deliveries."""
    open_until: datetime | None
    """Until when deliveries to it are paused after failures."""
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime
    revision: int


@dataclass(frozen=True, slots=True)
class EndpointDraft:
    """An endpoint to be saved; validated."""

    id: str
    url: str
    description: str = ""
    events: tuple[str, ...] = DEFAULT_EVENTS
    definition_keys: tuple[str, ...] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of one event to one receiver."""

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
    """One try of a delivery and its answer."""

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
    """One page of deliveries, the newest first; `next_cursor` continues after it, None: it is the last page."""

    deliveries: list[Delivery]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DeliveryTask:
    """A delivery that a sender has taken, with everything needed to send it."""

    id: str
    endpoint: str
    url: str
    body: str
    number: int
    """The number of this try; settling it requires the same number."""
    round: int
    """The number of this try since the last redelivery."""
    failures: int
    """Consecutive failures of its receiver."""
    secrets: tuple[str, ...] = field(default=(), repr=False, kw_only=True)
    """The endpoint's valid secrets; empty for URLs that are signed with the global secret."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one try: a status or an error."""

    status_code: int | None = None
    error: str | None = None
    excerpt: str | None = None
    retry_after: str | None = None
    duration: float = 0.0
    hopeless: bool = False
    """The URL is not allowed: another try would fail the same way."""


@dataclass(frozen=True, slots=True)
class DeliveryDecision:
    """What to do after an answer."""

    status: str
    delay: float = 0.0
    """Seconds until the next try."""
    disable: bool = False
    """The receiver asked for no further deliveries."""
    unwell: bool = False
    """The try counts as a failure of the receiver."""
    pause: float = 0.0
    """Seconds to pause deliveries to the receiver."""


@dataclass(frozen=True, slots=True)
class DeliveryOutlook:
    """Whether any receiver asks for events, and when the next delivery is due."""

    asked: bool
    due_at: int | None
    now: int


@dataclass(frozen=True, slots=True)
class FanoutReport:
    """The result of reading one page of the feed."""

    made: int
    more: bool
    restarted: bool = False
    """Events were deleted before they were read; reading continues with the oldest that is kept."""


def check_events(names: Iterable[str]) -> tuple[str, ...]:
    """Validate the event types that an endpoint asks for; refuse unknown types of penstock's own."""
    wanted = tuple(dict.fromkeys(names))
    if not 1 <= len(wanted) <= _MOST_FILTERS:
        raise InvalidInput(f"An endpoint asks for 1 to {_MOST_FILTERS} event types, not {len(wanted)}.")
    for name in wanted:
        _check_type(name)
    return wanted


def wants(asked: Sequence[str], type: str) -> bool:
    """Return whether an endpoint that asked for these types receives this one."""
    if type.startswith(_NEVER):
        return False
    return any(
        type == each or type in GROUPS.get(each, ()) or (each.endswith("*") and type.startswith(each[:-1]))
        for each in asked
    )


def message_id(endpoint: str, event: Event) -> str:
    """Return the id of an event's delivery to an endpoint: the same in every process."""
    what = f"{endpoint}\n{event.seq}\n{event.type}\n{event.at.isoformat()}\n{event.job_id or event.subject}"
    return f"msg_{hashlib.sha256(what.encode()).hexdigest()[:32]}"


def body(message: str, event: Event, job: Job | None, params: str | None = None, phases: Sequence[Phase] = ()) -> str:
    """Return the body of a delivery, which is the same at every try. `params` replace the job's own."""
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
    """Decide what follows the answer to try `number`, after `failures` consecutive failures of the receiver."""
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
    """Return the seconds that a Retry-After header asks for, at most a day; 0 when it is unreadable."""
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
    """Return the start of an answer as text that is safe to store and show: at most 1 kB."""
    text = readable(data[: 4 * EXCERPT].decode(errors="replace"))
    return text.encode()[:EXCERPT].decode(errors="ignore") or None


def readable(text: str) -> str:
    """Replace characters of a foreign text that hide or reorder other text."""
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
