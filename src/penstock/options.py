"""From what users write to the records of the core: definitions, drafts, filters."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.core import payload
from penstock.core.definition import Definition, RateLimit, Routed, check_priority
from penstock.core.errors import InvalidDefinition, InvalidInput
from penstock.core.ids import parse_id
from penstock.core.instant import from_datetime, microseconds
from penstock.core.job import Draft, JobFilter
from penstock.core.retry import Backoff, backoff_from
from penstock.core.transitions import Status
from penstock.handles import PLAIN, EnqueueOptions, Order
from penstock.signature import KeyOf, Signature

OPTIONS = (
    "version", "description", "priority", "max_attempts", "backoff", "timeout", "cancel_grace", "isolation",
    "concurrency", "concurrency_key", "key_concurrency", "rate_limit", "default_params", "secret", "stale_after",
    "delete_after",
)  # fmt: skip
"""What `@app.job` takes."""

_ENQUEUE_OPTIONS = tuple(each.name for each in fields(EnqueueOptions))
_FILTERS = tuple(each.name for each in fields(JobFilter))
_INTEGERS = ("version", "priority", "max_attempts", "concurrency")
_DURATIONS = ("timeout", "cancel_grace", "stale_after", "delete_after")
_RATE = re.compile(r"(\d+)\s*/\s*(s|m|h|d)\Z")
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LONGEST_TEXT = 500
_LONGEST_URL = 2000
_MOST_TAGS = 100


def default_key(function: Callable[..., Any]) -> str:
    """Module and name of a function; a script counts as the module that it would be if it were imported."""
    if "<lambda>" in function.__qualname__:
        raise InvalidDefinition("A lambda has no name to make a key of.", hint='Give it one: app.job("key")(lambda …).')
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name.removesuffix(".__main__") if spec else Path(file).stem if file else module
    return f"{module}.{function.__qualname__}".replace("<locals>.", "")


def definition_from(
    key: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[Definition, Signature, KeyOf | None]:
    """A definition, its signature and the way to its concurrency keys, from the options of `@app.job`."""
    try:
        return _definition_from(key, function, options)
    except InvalidDefinition:
        raise
    except InvalidInput as error:
        text = error.message if error.message.startswith(f"{key}: ") else f"{key}: {error.message}"
        raise InvalidDefinition(text, hint=error.hint) from None


def routed(lane: int, definition: Definition) -> Routed:
    return Routed(lane, definition.key, definition.version, definition.priority, definition.max_attempts)


def enqueue_options(options: Mapping[str, Any]) -> EnqueueOptions:
    """The options of one job, as given by name."""
    _refuse_unknown(options, _ENQUEUE_OPTIONS, "an option of enqueue")
    return EnqueueOptions(**options)


def draft(order: Order, route: Routed, job_id: str) -> Draft:
    """The job that an order asks for, checked."""
    options = order.options
    if options is PLAIN or options == PLAIN:
        return Draft(
            id=job_id, lane=route.lane, definition=order.key, params=order.params, priority=route.priority,
            max_attempts=route.max_attempts,
        )  # fmt: skip
    return _checked_draft(order, options, route, job_id)


def job_filter(which: Mapping[str, Any]) -> JobFilter:
    """A filter from what users write: statuses as texts, times as datetimes."""
    _refuse_unknown(which, _FILTERS, "a filter of jobs")
    given = {name: value for name, value in which.items() if value is not None}
    for name, value in given.items():
        if name == "status":
            given[name] = tuple(_status(each) for each in ([value] if isinstance(value, str) else value))
        elif name == "ids":
            given[name] = tuple(job_id(each) for each in ([value] if isinstance(value, str) else value))
        elif name in ("created_from", "created_to"):
            given[name] = _instant(value, name)
        elif name == "parent":
            given[name] = job_id(value)
        else:
            given[name] = _text(value, name)
    return JobFilter(**given)


def job_id(text: object) -> str:
    """A job's id in canonical form."""
    if not isinstance(text, str):
        raise InvalidInput(f"An id is a text, not {text!r:.80}.")
    return parse_id(text)


def integer(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} must be an integer, not {value!r:.80}.")
    return value


def _definition_from(
    key: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[Definition, Signature, KeyOf | None]:
    _refuse_unknown(options, OPTIONS, "an option of @app.job")
    given = {name: value for name, value in options.items() if value is not None}
    signature = Signature(function, key, secret := _names(given.pop("secret", ()), f"{key}: secret"))
    _check_parameters(signature, secret, f"{key}: secret")
    key_of: KeyOf | None = given.pop("concurrency_key", None)
    if key_of is None and "key_concurrency" in given:
        raise InvalidDefinition(f"{key}: key_concurrency needs a concurrency_key.")
    key_concurrency = given.pop("key_concurrency", 1)
    _check_key_of(signature, key_of, key)
    numbers: dict[str, Any] = _durations(given, options.get("timeout", ...) is None, key)
    numbers |= {name: integer(given.pop(name), f"{key}: {name}") for name in _INTEGERS if name in given}
    definition = Definition(
        key=key,
        description=_description(given.pop("description", None), function, key),
        concurrency_key="" if callable(key_of) else key_of,
        key_concurrency=0 if key_of is None else integer(key_concurrency, f"{key}: key_concurrency"),
        backoff=backoff_from(given.pop("backoff", Backoff())),
        rate_limit=rate_limit(given.pop("rate_limit", None), key),
        default_params=_default_params(given.pop("default_params", {}), signature, key),
        secret_fields=secret,
        **numbers,
        **given,
    )
    return definition, signature, key_of


def rate_limit(value: RateLimit | str | None, key: str) -> RateLimit | None:
    """A rate limit as given, or read from a text such as "10/s"."""
    if value is None or isinstance(value, RateLimit):
        return value
    if not isinstance(value, str) or not (found := _RATE.match(value.strip())):
        raise InvalidDefinition(f"{key}: {value!r} is no rate limit.", hint='Write "10/s", "100/m", "1000/h" or "5/d".')
    return RateLimit(int(found.group(1)), _PERIODS[found.group(2)])


def _durations(given: dict[str, Any], endless: bool, key: str) -> dict[str, Any]:
    found = {name: microseconds(given.pop(name), f"{key}: {name}") for name in _DURATIONS if name in given}
    if found.get("timeout") == 0:
        raise InvalidDefinition(
            f"{key}: timeout must be more than 0 seconds.", hint="None means that there is no limit."
        )
    return {**found, "timeout": None} if endless else found


def _default_params(value: object, signature: Signature, key: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidDefinition(f"{key}: default_params must be a mapping by name, not {value!r:.80}.")
    _check_parameters(signature, value, f"{key}: default_params")
    return payload.encode(dict(value), f"{key}: default_params")


def _check_key_of(signature: Signature, key_of: object, key: str) -> None:
    if isinstance(key_of, str):
        _check_parameters(signature, [key_of], f"{key}: concurrency_key")
    elif key_of is not None and not callable(key_of):
        raise InvalidDefinition(
            f"{key}: concurrency_key must be the name of a parameter or a function, not {key_of!r:.80}."
        )


def _check_parameters(signature: Signature, names: Iterable[str], what: str) -> None:
    if not signature.open_ended:
        _refuse_unknown(names, signature.names, f"a parameter of the function ({what})")


def _description(value: object, function: Callable[..., Any], key: str) -> str:
    if value is not None and not isinstance(value, str):
        raise InvalidDefinition(f"{key}: description must be a text, not {value!r:.80}.")
    return value if value is not None else inspect.getdoc(function) or ""


def _checked_draft(order: Order, options: EnqueueOptions, route: Routed, new_id: str) -> Draft:
    what = order.key
    priority = route.priority if options.priority is None else options.priority
    check_priority(priority, what)
    attempts = route.max_attempts if options.max_attempts is None else options.max_attempts
    if not 1 <= integer(attempts, f"{what}: max_attempts") <= 1000:
        raise InvalidInput(f"{what}: max_attempts must be 1 to 1000, not {attempts!r}.")
    delay = microseconds(options.delay, f"{what}: delay")
    if options.at is not None and delay:
        raise InvalidInput(f"{what}: give `at` or `delay`, not both.")
    key = _text(options.idempotency_key, f"{what}: idempotency_key")
    digest = payload.digest(order.params) if key is not None or options.unique is True else None
    reference_type, reference_id = _reference(options.reference, what)
    return Draft(
        id=new_id,
        lane=route.lane,
        definition=order.key,
        params=order.params,
        priority=priority,
        max_attempts=attempts,
        due=None if options.at is None else _instant(options.at, f"{what}: at"),
        delay=delay,
        idempotency_key=key,
        params_digest=digest,
        unique=_unique(options.unique, digest, what),
        concurrency_key=_text(options.concurrency_key, f"{what}: concurrency_key"),
        reference_type=reference_type,
        reference_id=reference_id,
        tags=_tags(options.tags, what),
        webhook_url=_url(options.webhook_url, f"{what}: webhook_url"),
        parent=None if options.parent is None else job_id(options.parent),
        traceparent=_text(options.traceparent, f"{what}: traceparent"),
    )


def _unique(value: object, digest: str | None, what: str) -> str | None:
    if value is True:
        return digest
    return None if value is False or value is None else _text(value, f"{what}: unique")


def _reference(value: object, what: str) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2 or None in value:
        raise InvalidInput(f"{what}: a reference is a pair of texts (type, id), not {value!r:.80}.")
    return _text(value[0], f"{what}: the reference's type"), _text(value[1], f"{what}: the reference's id")


def _tags(value: object, what: str) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(_names(value, f"{what}: tags")))
    if len(tags) > _MOST_TAGS:
        raise InvalidInput(f"{what}: a job has at most {_MOST_TAGS} tags, not {len(tags)}.")
    for tag in tags:
        _text(tag, f"{what}: a tag")
    return tags


def _url(value: object, what: str) -> str | None:
    text = _text(value, what, _LONGEST_URL)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or re.search(r"[\x00-\x20\x7f]", text):
        raise InvalidInput(f"{what} must be an http or https URL, not {text[:80]!r}.")
    return text


def _text(value: object, what: str, longest: int = _LONGEST_TEXT) -> str | None:
    """A short text that both databases can keep."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a text, not {value!r:.80}.")
    if not 1 <= len(value) <= longest:
        raise InvalidInput(f"{what} must have 1 to {longest} characters, not {len(value)}.")
    if "\x00" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise InvalidInput(f"{what} holds a NUL or half of a surrogate pair: {value[:80]!a}.")
    return value


def _names(value: object, what: str) -> tuple[str, ...]:
    """Several texts; one text alone would be taken for its letters."""
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
        raise InvalidInput(f"{value!r:.80} is no status.", hint=f"Statuses: {', '.join(Status)}.") from None


def _refuse_unknown(given: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
            raise InvalidInput(f"{name!r} is not {what}.", hint=hint)
