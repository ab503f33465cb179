"""The webhooks port: endpoints and their deliveries."""

from __future__ import annotations

import json
from typing import Any

from penstock.domain import event as kinds
from penstock.domain.errors import Conflict, InvalidInput, NotFound, RevisionConflict
from penstock.domain.event import Event
from penstock.domain.ids import is_id
from penstock.domain.instant import DAY, HOUR, SECOND, maybe_datetime, to_datetime
from penstock.domain.plan import Statement, Steps, reads, writes, writes_once
from penstock.domain.webhook.endpoint import (
    DELIVERED,
    GLOBAL,
    OF_JOB,
    STATUSES,
    TEST,
    WAITING,
    Answer,
    Delivery,
    DeliveryDecision,
    DeliveryDetail,
    DeliveryOutlook,
    DeliveryPage,
    DeliveryTask,
    Endpoint,
    EndpointDraft,
    Try,
    body,
    message_id,
)
from penstock.domain.webhook.url import without_path
from penstock.storage.commands import audit, rows
from penstock.storage.commands.delivery_fanout import create_deliveries as create_deliveries

LEAST_FAILURES = 10
"""Consecutive failed tries before an endpoint is disabled."""
SYSTEM = "penstock"
"""The actor of automatic changes."""


@writes_once
def save_endpoint(
    draft: EndpointDraft, *, by: str, secret: str | None = None, revision: int | None = None
) -> Steps[Endpoint]:
    stored = yield from _find(draft.id)
    if revision is not None and revision != (stored.revision if stored else 0):
        raise RevisionConflict(
            f"Webhook {draft.id!r} is at revision {stored.revision if stored else 0}, not {revision}.",
            hint="Read it again and repeat your change.",
        )
    values = _values(draft)
    if stored is None:
        if secret is None:
            raise _missing(draft.id)
        made = yield Statement("create_endpoint", {**values, "secret": secret})
        if not made:
            raise Conflict(f"Webhook {draft.id!r} was created by another caller at the same time.")
        yield Statement("lock_receivers", columns={"key": [draft.id]})
        yield audit.entry(by, "webhook.create", draft.id, None, _audit_facts(draft))
    elif _facts(draft) == _facts(stored):
        return stored
    else:
        yield Statement("replace_endpoint", values)
        if draft.enabled and (not stored.enabled or draft.url != stored.url):
            yield Statement("reset_receiver", {"key": draft.id})
        yield audit.entry(by, "webhook.replace", draft.id, _audit_facts(stored), _audit_facts(draft))
    return (yield from _read(draft.id))


@reads
def endpoints() -> Steps[list[Endpoint]]:
    return [_endpoint(row) for row in (yield Statement("list_endpoints"))]


@reads
def endpoint(endpoint_id: str) -> Steps[Endpoint]:
    return (yield from _read(endpoint_id))


@writes
def remove_endpoint(endpoint_id: str, *, by: str) -> Steps[None]:
    stored = yield from _hold(endpoint_id)
    yield Statement("remove_endpoint", {"id": endpoint_id})
    yield Statement("fail_deliveries", {"id": endpoint_id, "error": "The endpoint was removed."})
    yield audit.entry(by, "webhook.remove", endpoint_id, _audit_facts(stored))


@writes
def rotate_secret(endpoint_id: str, secret: str, *, overlap: int, by: str) -> Steps[Endpoint]:
    yield from _hold(endpoint_id)
    if (yield Statement("rotate_secret", {"id": endpoint_id, "secret": secret, "overlap": overlap})):
        yield audit.entry(by, "webhook.rotate", endpoint_id, None, {"overlapSeconds": overlap // SECOND})
    return (yield from _read(endpoint_id))


@reads
def delivery_outlook() -> Steps[DeliveryOutlook]:
    ((by_endpoint, by_job, due_at, now),) = yield Statement("delivery_outlook")
    return DeliveryOutlook(bool(by_endpoint or by_job), due_at, now)


@writes_once
def take_deliveries(owner: str, limit: int, lease: int, per_endpoint: int = 2) -> Steps[list[DeliveryTask]]:
    if limit < 1:
        return []
    chosen: list[int] = []
    for key, tried_again in (yield Statement("hold_receivers", {"limit": limit})):
        most = 1 if tried_again else per_endpoint
        # Read after locking: deliveries taken by others are visible, so that the limit is never exceeded.
        ripe = yield Statement("due_deliveries", {"key": key, "most": most, "room": limit - len(chosen)})
        chosen += [seq for (seq,) in ripe]
        if len(chosen) >= limit:
            break
    if not chosen:
        return []
    taken = yield Statement("take_deliveries", {"owner": owner, "lease": lease}, columns={"seq": chosen})
    return [
        DeliveryTask(*facts, secrets=tuple(each for each in (secret, old) if each)) for *facts, secret, old in taken
    ]


@writes
def settle_delivery(
    delivery_id: str, number: int, answer: Answer, verdict: DeliveryDecision, *, give_up: int = 0
) -> Steps[bool]:  # fmt: skip
    """A second settlement of the same try is refused like a late one."""
    values = {
        "id": delivery_id, "number": number, "status": verdict.status, "delay": round(verdict.delay * SECOND),
        "status_code": answer.status_code, "error": answer.error,
    }  # fmt: skip
    settled = yield Statement("settle_delivery", values)
    if not settled:
        return False
    ((seq, endpoint_id, receiver, kind, job_id, tries),) = settled
    told = {
        "delivery": seq, "number": number, "duration": round(answer.duration * SECOND),
        "status_code": answer.status_code, "error": answer.error, "excerpt": answer.excerpt,
    }  # fmt: skip
    yield Statement("save_try", told)
    failing_for, failing_tries = None, 0
    if verdict.unwell or answer.status_code is not None:
        pause = round(verdict.pause * SECOND)
        felt = {"unwell": verdict.unwell, "delivered": verdict.status == DELIVERED, "pause": pause}
        ((failing_for, failing_tries),) = yield Statement("note_receiver", {"key": receiver, **felt})
    if endpoint_id in (GLOBAL, OF_JOB):
        pass
    elif verdict.disable:
        yield from _disable(endpoint_id, f"It answered {answer.status_code}.")
    elif give_up and failing_for is not None and failing_for >= give_up and failing_tries >= LEAST_FAILURES:
        told_for = f"{failing_for / DAY:.3g} days" if failing_for >= 2 * DAY else f"{failing_for / HOUR:.3g} hours"
        yield from _disable(endpoint_id, f"No message has arrived for {told_for}: {failing_tries} tries failed.")
    if verdict.status != WAITING and job_id is not None:
        yield from _write_event(job_id, delivery_id, endpoint_id, kind, tries, answer, verdict)
    return True


@reads
def deliveries(
    *, endpoint: str | None = None, job_id: str | None = None, status: str | None = None, limit: int = 50,
    cursor: str | None = None,
) -> Steps[DeliveryPage]:  # fmt: skip
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"{status!r:.80} is no status of a delivery.", hint=f"There are: {', '.join(STATUSES)}.")
    if job_id is not None and not is_id(job_id):
        return DeliveryPage([], None)
    asked: dict[str, tuple[str, Any]] = {
        "delivery_of_endpoint": ("endpoint", endpoint),
        "delivery_of_job": ("job_id", job_id),
        "delivery_in_status": ("status", status),
        "delivery_before": ("before", None if cursor is None else _number(cursor)),
    }
    parts = tuple(name for name, (_, value) in asked.items() if value is not None)
    values = {name: value for name, value in asked.values() if value is not None}
    found = yield Statement("list_deliveries", {**values, "limit": limit + 1}, parts=parts)
    page = [_delivery(row) for row in found[:limit]]
    return DeliveryPage(page, str(page[-1].seq) if len(found) > limit else None)


@reads
def delivery(delivery_id: str) -> Steps[DeliveryDetail]:
    return (yield from _detail(delivery_id))


@writes
def redeliver(delivery_id: str, *, by: str) -> Steps[DeliveryDetail]:
    before = (yield from _detail(delivery_id)).delivery
    if before.webhook_id not in (GLOBAL, OF_JOB) and (yield from _find(before.webhook_id)) is None:
        raise Conflict(f"The endpoint of delivery {delivery_id!r} was removed.", hint="There is no receiver any more.")
    if (yield Statement("redeliver", {"id": delivery_id})):
        yield audit.entry(by, "webhook.redeliver", delivery_id, {"status": before.status}, {"status": WAITING})
    return (yield from _detail(delivery_id))


@writes_once
def test_endpoint(endpoint_id: str, at: int, *, by: str) -> Steps[DeliveryDetail]:
    stored = yield from _hold(endpoint_id)
    if not stored.enabled:
        raise Conflict(f"Webhook {endpoint_id!r} is disabled: nothing is sent to it.", hint="Enable it first.")
    # Event numbers are positive; the negative instant makes this one unique.
    event = Event(-at, TEST, to_datetime(at), None, endpoint_id, None, None)
    message = message_id(endpoint_id, event)
    row = {
        "id": message, "endpoint": endpoint_id, "event_seq": event.seq, "receiver": endpoint_id, "url": stored.url,
        "kind": TEST, "job_id": None, "body": body(message, event, None),
    }  # fmt: skip
    yield Statement("lock_receivers", columns={"key": [endpoint_id]})
    if (yield Statement("save_deliveries", columns={name: [value] for name, value in row.items()})):
        yield audit.entry(by, "webhook.test", endpoint_id, None, {"delivery": message})
    return (yield from _detail(message))


def _disable(endpoint_id: str, reason: str) -> Steps[None]:
    if (yield Statement("disable_endpoint", {"id": endpoint_id, "reason": reason})):
        yield audit.entry(SYSTEM, "webhook.disable", endpoint_id, None, {"enabled": False, "reason": reason})


def _write_event(
    job_id: str, delivery_id: str, endpoint_id: str, kind: str, tries: int, answer: Answer, verdict: DeliveryDecision
) -> Steps[None]:
    """Write the end of a delivery as an event of its job, if the job still exists."""
    if not (yield Statement("find_jobs", columns={"id": [job_id]})):
        return
    facts = {
        "webhookId": delivery_id, "endpoint": endpoint_id, "type": kind, "tries": tries,
        "statusCode": answer.status_code, "error": answer.error,
    }  # fmt: skip
    data = json.dumps({name: value for name, value in facts.items() if value is not None}, ensure_ascii=False)
    told = kinds.WEBHOOK_DELIVERED if verdict.status == DELIVERED else kinds.WEBHOOK_FAILED
    yield rows.event(told, job_id=job_id, data=data)


def _find(endpoint_id: str) -> Steps[Endpoint | None]:
    """An endpoint, held until the transaction ends."""
    found = yield Statement("hold_endpoint", {"id": endpoint_id})
    return _endpoint(found[0]) if found else None


def _hold(endpoint_id: str) -> Steps[Endpoint]:
    stored = yield from _find(endpoint_id)
    if stored is None:
        raise _missing(endpoint_id)
    return stored


def _read(endpoint_id: str) -> Steps[Endpoint]:
    found = yield Statement("read_endpoint", {"id": endpoint_id})
    if not found:
        raise _missing(endpoint_id)
    return _endpoint(found[0])


def _detail(delivery_id: str) -> Steps[DeliveryDetail]:
    found = yield Statement("read_delivery", {"id": delivery_id})
    if not found:
        raise NotFound("delivery", delivery_id, hint="It never was, or retention has removed it.")
    *facts, body = found[0]
    told = _delivery(tuple(facts))
    tries = [
        Try(number, to_datetime(at), duration / SECOND, *rest)
        for number, at, duration, *rest in (yield Statement("read_tries", {"delivery": told.seq}))
    ]
    return DeliveryDetail(told, body, tries)


def _missing(endpoint_id: str) -> NotFound:
    return NotFound("webhook", endpoint_id, hint="It was never created here, or it has been removed.")


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput(f"{cursor[:100]!r} is not a cursor of deliveries.", hint="Use one that a page has given.")
    return int(cursor)


def _values(draft: EndpointDraft) -> dict[str, Any]:
    return {
        "id": draft.id, "url": draft.url, "description": draft.description, "enabled": draft.enabled,
        "kinds": json.dumps(draft.events), "definitions": json.dumps(draft.definition_keys),
    }  # fmt: skip


def _facts(what: EndpointDraft | Endpoint) -> dict[str, Any]:
    return {
        "url": what.url, "description": what.description, "events": list(what.events),
        "definitionKeys": list(what.definition_keys), "enabled": what.enabled,
    }  # fmt: skip


def _audit_facts(what: EndpointDraft | Endpoint) -> dict[str, Any]:
    """Return the same for the audit, without the path of the URL, which is secret."""
    return {**_facts(what), "url": without_path(what.url)}


def _endpoint(row: rows.Row) -> Endpoint:
    (
        endpoint_id, url, description, asked, definitions, enabled, hint, old_hint, old_until, reason, failures,
        open_until, success_at, failure_at, created_at, updated_at, revision,
    ) = row  # fmt: skip
    return Endpoint(
        id=endpoint_id, url=url, description=description, events=tuple(json.loads(asked)),
        definition_keys=tuple(json.loads(definitions)), enabled=bool(enabled),
        secret_hints=tuple(each for each in (hint, old_hint) if each), previous_secret_until=maybe_datetime(old_until),
        disabled_reason=reason, failures=failures, open_until=maybe_datetime(open_until),
        last_success_at=maybe_datetime(success_at), last_failure_at=maybe_datetime(failure_at),
        created_at=to_datetime(created_at), updated_at=to_datetime(updated_at), revision=revision,
    )  # fmt: skip


def _delivery(row: rows.Row) -> Delivery:
    delivery_id, endpoint_id, url, kind, job_id, status, tries, due_at, created_at, ended_at, code, error, seq = row
    return Delivery(
        id=delivery_id, webhook_id=endpoint_id, url=url, type=kind, job_id=job_id, status=status, tries=tries,
        due_at=to_datetime(due_at), created_at=to_datetime(created_at), finished_at=maybe_datetime(ended_at),
        status_code=code, error=error, seq=seq,
    )  # fmt: skip
