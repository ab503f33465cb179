"""Validated drafts and filters from the options of enqueue calls and queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from penstock.definitions.orders import PLAIN, EnqueueOptions, Order
from penstock.domain import payload
from penstock.domain.definition import DEFAULT_PRIORITY, Definition, Routed, check_priority
from penstock.domain.errors import Hint, InvalidInput, refuse_unknown
from penstock.domain.ids import parse_id, parse_uuid
from penstock.domain.instant import Duration, from_datetime, microseconds
from penstock.domain.job import Draft, Job, UniformDrafts
from penstock.domain.job_list import JobFilter
from penstock.domain.states import Status
from penstock.domain.trace_context import kept_trace

_ENQUEUE_OPTIONS = tuple(each.name for each in fields(EnqueueOptions))
_FILTERS = tuple(each.name for each in fields(JobFilter))
_LONGEST_TEXT = 500
_LONGEST_URL = 2000
_LONGEST_NOTE = 2000
_MOST_TAGS = 100
_MOST_SEARCHED = 20


def routed(lane: int, definition: Definition) -> Routed:
    return Routed(lane, definition.key, definition.version, definition.priority, definition.max_attempts)


def enqueue_options(options: Mapping[str, Any]) -> EnqueueOptions:
    """Return the options of one job from keyword arguments."""
    refuse_unknown(options, _ENQUEUE_OPTIONS, "an option of enqueue")
    return EnqueueOptions(**options)


def draft(order: Order, route: Routed, job_id: str, **facts: Any) -> Draft:
    """Return the validated draft of an order; `facts` are fields that no order has, such as `rerun_of`."""
    options = order.options
    if options is PLAIN or options == PLAIN:
        return Draft(
            id=job_id, lane=route.lane, definition=order.key, params=order.params, priority=route.priority,
            max_attempts=route.max_attempts, priority_given=False, attempts_given=False, **facts,
        )  # fmt: skip
    return _checked_draft(order, options, route, job_id, facts)


def drafts(
    orders: Sequence[Order], routes: Mapping[tuple[str, int], Routed], ids: Sequence[str], **facts: Any
) -> Sequence[Draft]:
    """Return the validated drafts of orders."""
    first = orders[0]
    key, version, options = first.key, first.version, first.options
    if len(orders) > 1 and False not in [
        each.options is options and each.version == version and each.key == key for each in orders
    ]:
        one = draft(first, routes[key, version], ids[0], **facts)
        if one.is_plain:
            return UniformDrafts(one, ids, [each.params for each in orders])
    return [
        draft(each, routes[each.key, each.version], job_id, **facts) for each, job_id in zip(orders, ids, strict=True)
    ]


def check(order: Order) -> None:
    """Refuse an order with invalid options."""
    draft(order, Routed(0, order.key, order.version, DEFAULT_PRIORITY, 1), "")


def as_before(job: Job, *, same: bool) -> dict[str, Any]:
    """Return the options of a job that a copy of it shares."""
    reference = None if job.reference_type is None else (job.reference_type, job.reference_id)
    return {
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "reference": reference,
        "tags": job.tags,
        "webhook_url": job.webhook_url,
        # With other parameters the key may differ.
        "concurrency_key": job.concurrency_key if same else None,
    }


def job_filter(which: Mapping[str, Any]) -> JobFilter:
    """Return a filter from user input: statuses as strings, times as datetimes."""
    refuse_unknown(which, _FILTERS, "a filter of jobs")
    given = {name: value for name, value in which.items() if value is not None}
    for name, value in given.items():
        if name == "status":
            given[name] = tuple(_status(each) for each in ([value] if isinstance(value, str) else value))
        elif name == "job_id":
            given[name] = tuple(job_id(each) for each in ([value] if isinstance(value, str) else value))
        elif name in ("created_from", "created_to"):
            given[name] = _instant(value, name)
        elif name == "parent_id":
            given[name] = job_id(value)
        elif name == "params":
            given[name] = _searched_params(value)
        else:
            given[name] = short_text(value, name)
    return JobFilter(**given)


def _searched_params(value: object) -> tuple[tuple[str, str], ...]:
    """Return names of parameters with the values to search for, as strings."""
    if not isinstance(value, Mapping) or not 1 <= len(value) <= _MOST_SEARCHED:
        raise InvalidInput(f"params must be 1 to {_MOST_SEARCHED} parameters with their values, not {value!r:.80}.")
    return tuple((_parameter(name), _searched_value(name, each)) for name, each in value.items())


def _parameter(name: object) -> str:
    found = short_text(name, "The name of a parameter")
    if found is None:
        raise InvalidInput("The name of a parameter must be a text, not None.")
    return found


def _searched_value(name: object, value: object) -> str:
    if isinstance(value, str):
        return short_text(value, f"The value of {name!r:.80}") or "" if value else ""
    if value is None or isinstance(value, bool | int | float):
        return payload.encode(value, f"the value of {name!r:.80}")
    raise InvalidInput(
        f"The value of {name!r:.80} must be a text, a number, true, false or null, not {type(value).__name__}.",
        hint="Objects and lists cannot be searched for.",
    )


def job_id(text: object) -> str:
    """Return the id of a job in canonical form."""
    return parse_uuid(_id_text(text))


def parent_id(text: object) -> str:
    """Return the id of a parent job in canonical form."""
    return parse_id(_id_text(text))


def _id_text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"An id is a text, not {text!r:.80}.")
    return text


def actor(by: object) -> str | None:
    """Return the actor of a change, if one was given; an `Actor` is returned unchanged."""
    short_text(getattr(by, "request_id", None), "the id of a request")
    return short_text(by, "by")


def note(text: object) -> str | None:
    """Return the note of a decision."""
    return short_text(text, "note", _LONGEST_NOTE)


def instant(value: datetime | None, what: str) -> int | None:
    return None if value is None else _instant(value, what)


def due(run_at: datetime | None, delay: Duration) -> tuple[int | None, int]:
    """Return when a job is due: at a time, or after a duration from now."""
    later = microseconds(delay, "delay")
    if run_at is not None and later:
        raise InvalidInput("Give `run_at` or `delay`, not both.")
    return instant(run_at, "run_at"), later


def integer(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be an integer, not {value!r:.80}.")
    return value


def _checked_draft(
    order: Order, options: EnqueueOptions, route: Routed, new_id: str, facts: Mapping[str, Any]
) -> Draft:
    what = order.key
    priority = route.priority if options.priority is None else options.priority
    check_priority(priority, what)
    attempts = route.max_attempts if options.max_attempts is None else options.max_attempts
    if not 1 <= integer(attempts, f"{what}: max_attempts") <= 1000:
        raise InvalidInput(f"{what}: max_attempts must be 1 to 1000, not {attempts!r}.")
    delay = microseconds(options.delay, f"{what}: delay")
    if options.run_at is not None and delay:
        raise InvalidInput(f"{what}: give `run_at` or `delay`, not both.")
    key = short_text(options.idempotency_key, f"{what}: idempotency_key")
    digest = payload.digest(order.params) if key is not None or options.unique is True else None
    reference_type, reference_id = _reference(options.reference, what)
    return Draft(
        id=new_id,
        lane=route.lane,
        definition=order.key,
        params=order.params,
        priority=priority,
        max_attempts=attempts,
        due=None if options.run_at is None else _instant(options.run_at, f"{what}: run_at"),
        delay=delay,
        idempotency_key=key,
        params_digest=digest,
        unique=_unique(options.unique, digest, what),
        concurrency_key=short_text(options.concurrency_key, f"{what}: concurrency_key"),
        reference_type=reference_type,
        reference_id=reference_id,
        tags=_tags(options.tags, what),
        webhook_url=_url(options.webhook_url, f"{what}: webhook_url"),
        parent=None if options.parent_id is None else parent_id(options.parent_id),
        traceparent=_trace(options, what),
        priority_given=options.priority is not None,
        attempts_given=options.max_attempts is not None,
        **facts,
    )


def _unique(value: object, digest: str | None, what: str) -> str | None:
    if value is True:
        return digest
    return None if value is False or value is None else short_text(value, f"{what}: unique")


def _reference(value: object, what: str) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2 or None in value:
        raise InvalidInput(f"{what}: a reference is a pair of texts (type, id), not {value!r:.80}.")
    return short_text(value[0], f"{what}: the reference's type"), short_text(value[1], f"{what}: the reference's id")


def _trace(options: EnqueueOptions, what: str) -> str | None:
    parent, state = short_text(options.traceparent, f"{what}: traceparent"), options.tracestate
    if parent is not None and " " in parent:
        raise InvalidInput(
            f"{what}: traceparent must have no spaces, not {parent!r:.80}.",
            hint=Hint(
                "Give the trace state as tracestate=….",
                cli="Leave the trace state out.",
                http="Send the trace state as `tracestate`.",
            ),
        )
    if not isinstance(state, str | None):
        raise InvalidInput(f"{what}: tracestate must be a text, not {state!r:.80}.")
    return kept_trace(parent, state)


def _tags(value: object, what: str) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(several_texts(value, f"{what}: tags")))
    if len(tags) > _MOST_TAGS:
        raise InvalidInput(f"{what}: a job has at most {_MOST_TAGS} tags, not {len(tags)}.")
    for tag in tags:
        short_text(tag, f"{what}: a tag")
    return tags


def _url(value: object, what: str) -> str | None:
    text = short_text(value, what, _LONGEST_URL)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        # A password in the URL would be stored and shown.
        plain = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        fits = parts.scheme in ("http", "https") and plain
    except ValueError:
        fits = False
    if not fits or re.search(r"[\x00-\x20\x7f]", text):
        raise InvalidInput(f"{what} must be an http or https URL, not {text[:80]!r}.")
    return text


def short_text(value: object, what: str, longest: int = _LONGEST_TEXT) -> str | None:
    """Return a short string that both databases can store."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a text, not {value!r:.80}.")
    if not 1 <= len(value) <= longest:
        raise InvalidInput(f"{what} must have 1 to {longest} characters, not {len(value)}.")
    if "\x00" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise InvalidInput(f"{what} holds a NUL or half of a surrogate pair: {value[:80]!a}.")
    return value


def several_texts(value: object, what: str) -> tuple[str, ...]:
    """Return several strings; a single string would be treated as its characters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput(f"{what} must be a list of texts, not {value!r:.80}.")
    names = tuple(value)
    if not all(isinstance(each, str) for each in names):
        raise InvalidInput(f"{what} must be a list of texts, not {value!r:.80}.")
    return names


def _instant(value: object, what: str) -> int:
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be a datetime with a time zone, not {value!r:.80}.")
    return from_datetime(value, what)


def _status(value: Any) -> Status:
    try:
        return Status(value)
    except ValueError:
        raise InvalidInput(f"{value!r:.80} is not a status.", hint=f"Statuses: {', '.join(Status)}.") from None
