"""Fan-out of feed events into webhook deliveries; a part of the webhooks port.

One reader at a time locks the cursor, creates the deliveries of a page of events and moves the cursor, in one
transaction: after any crash, no event is skipped and none is delivered under two ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.domain import event as kinds
from penstock.domain.attempt import Phase
from penstock.domain.errors import FeedGone, InvalidDefinition, InvalidInput, NotFound
from penstock.domain.event import Event, News
from penstock.domain.instant import HOUR, MINUTE, from_datetime
from penstock.domain.job import Job
from penstock.domain.phases import ONLY, all_phases
from penstock.domain.plan import Statement, Steps, writes
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.endpoint import DEFAULT_EVENTS, GLOBAL, OF_JOB, FanoutReport, Mask, body, message_id, wants
from penstock.domain.webhook.url import origin
from penstock.storage.commands import feed
from penstock.storage.commands.jobs import phases_of
from penstock.storage.commands.reading import get
from penstock.storage.commands.registration import definition


@dataclass(frozen=True, slots=True)
class _Subscriber:
    """A receiver with its event filter."""

    endpoint: str
    url: str
    kinds: Sequence[str] = DEFAULT_EVENTS
    definitions: Sequence[str] = ()
    since: int = 0

    def wants(self, event: Event, job: Job | None) -> bool:
        if not wants(self.kinds, event.type) or from_datetime(event.at, "at") < self.since:
            return False
        return not self.definitions or (job is not None and job.definition_key in self.definitions)


@writes
def create_deliveries(
    limit: int = 100, *, global_url: str | None = None, mask: Mask | None = None
) -> Steps[FanoutReport]:
    """Without a `mask`, secret fields of definitions and usual names of secrets are masked."""
    held = yield Statement("hold_webhook_feed")
    if not held:
        return FanoutReport(0, more=False)
    ((cursor, moved_at, since),) = held
    # The tip first: a receiver that subscribes later gets events after it.
    tip = yield from feed.tip().steps()
    ((by_endpoint, by_job, _, now),) = yield Statement("delivery_outlook")
    if not (by_endpoint or by_job or global_url):
        if cursor != tip:
            yield Statement("move_webhook_feed", {"cursor": tip, "since": since})
        return FanoutReport(0, more=False)
    news, restarted = yield from _news(cursor, limit)
    if restarted:
        since = max(since, moved_at - MINUTE)
    made = yield from _deliver(
        [event for event in news.events if from_datetime(event.at, "at") >= since],
        global_url,
        mask or SecretPolicy().mask,
    )
    # Without events nothing is written, except for retention, which must see that this reader is alive.
    if cursor is None or news.events or news.more or restarted or now - moved_at > HOUR:
        yield Statement("move_webhook_feed", {"cursor": news.cursor, "since": since})
    return FanoutReport(made, news.more, restarted)


def _news(cursor: str | None, limit: int) -> Steps[tuple[News, bool]]:
    """Return the events after the cursor; where some were deleted, all that are left, and True."""
    restarted = False
    if cursor is None:
        cursor = yield from feed.origin().steps()
    try:
        news = yield from feed.read(cursor, limit).steps()
    except (FeedGone, InvalidInput):
        origin = yield from feed.origin().steps()
        news = yield from feed.read(origin, limit).steps()
        restarted = True
    return news, restarted


def _deliver(events: Sequence[Event], global_url: str | None, mask: Mask) -> Steps[int]:
    asking = [
        _Subscriber(endpoint, url, json.loads(asked), json.loads(definitions), since)
        for endpoint, url, asked, definitions, since in (yield Statement("subscribed_endpoints"))
    ]
    if global_url is not None:
        asking.append(_Subscriber(GLOBAL, global_url))
    told = [event for event in events if any(wants(each.kinds, event.type) for each in asking)]
    own = yield from _with_own_url(events)
    if not told and not own:
        return 0
    wanted = {event.job_id for event in told if event.job_id is not None} | own
    jobs = {job.id: job for job in (yield from get(sorted(wanted)).steps())}
    params, phases = yield from _shown(jobs.values(), mask)
    columns: dict[str, list[object]] = {
        name: [] for name in ("id", "endpoint", "event_seq", "receiver", "url", "kind", "job_id", "body")
    }
    for event in events:
        job = jobs.get(event.job_id or "")
        if event.job_id is not None and job is None and event.type != kinds.DELETED:
            continue
        for each in _askers(asking, event, job):
            message = message_id(each.endpoint, event)
            receiver = _receiver(each)
            text = body(message, event, job, params[job.id], phases[job.id]) if job else body(message, event, None)
            row = (message, each.endpoint, event.seq, receiver, each.url, event.type, event.job_id, text)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    if not columns["id"]:
        return 0
    yield Statement("lock_receivers", columns={"key": sorted(set(map(str, columns["receiver"])))})
    return len((yield Statement("save_deliveries", columns=columns)))


def _with_own_url(events: Sequence[Event]) -> Steps[set[str]]:
    """Return the jobs of these events that have their own webhook URL."""
    ids = sorted({event.job_id for event in events if event.job_id is not None and wants(DEFAULT_EVENTS, event.type)})
    if not ids:
        return set()
    return {job_id for (job_id,) in (yield Statement("jobs_with_webhooks", columns={"id": ids}))}


def _askers(asking: Sequence[_Subscriber], event: Event, job: Job | None) -> list[_Subscriber]:
    found = [each for each in asking if each.wants(event, job)]
    if job is not None and job.webhook_url is not None:
        own = _Subscriber(OF_JOB, job.webhook_url)
        found += [own] if own.wants(event, job) else []
    return found


def _receiver(asking: _Subscriber) -> str:
    """Return what failures are counted for: the endpoint, or the origin of the URL."""
    if asking.endpoint not in (GLOBAL, OF_JOB):
        return asking.endpoint
    try:
        return origin(asking.url)
    except InvalidInput:
        return "unsound"


def _shown(jobs: Collection[Job], mask: Mask) -> Steps[tuple[dict[str, str], dict[str, list[Phase]]]]:
    """Return the masked parameters of jobs (null where the definition is unreadable), and their phases."""
    secret: dict[tuple[str, int], Sequence[str] | None] = {}
    names: dict[tuple[str, int], Sequence[str]] = {}
    shown: dict[str, str] = {}
    for job in jobs:
        kind = (job.definition_key, job.definition_version)
        if kind not in secret:
            try:
                found = (yield from definition(*kind).steps()).definition
                secret[kind], names[kind] = found.secret_fields, found.phases
            except (NotFound, InvalidDefinition):
                secret[kind], names[kind] = None, (ONLY,)
        fields = secret[kind]
        shown[job.id] = "null" if fields is None else mask(fields, job.params_text)
    named = {job.id: names[job.definition_key, job.definition_version] for job in jobs}
    kept = yield from phases_of([job_id for job_id, each in named.items() if len(each) > 1]).steps()
    return shown, {job.id: all_phases(job, named[job.id], kept.get(job.id, ())) for job in jobs}
