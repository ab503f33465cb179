"""Orders: requests for jobs, before their creation or sent between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.definitions.signature import KeyOf, Validator, concurrency_key
from penstock.domain import payload
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.instant import Duration


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """The options of a new job."""

    run_at: datetime | None = None
    delay: Duration = 0
    priority: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    unique: bool | str = False
    concurrency_key: str | None = None
    reference: tuple[str, str] | None = None
    tags: Sequence[str] = ()
    webhook_url: str | None = None
    parent_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    connection: Any = field(default=None, compare=False)


PLAIN = EnqueueOptions()
_TRAVELLING = tuple(each.name for each in fields(EnqueueOptions) if each.name != "connection")
_PARTS = ("key", "version", "params", "checked", "options")


class Order(NamedTuple):
    """A request for one job: a definition, its parameters as JSON text, and options."""

    key: str
    version: int
    """0 in an unvalidated order: the store chooses the version."""
    params: str
    options: EnqueueOptions
    checked: bool = True
    """Whether the parameters were validated; if not, the creation of the job validates them."""

    def to_json(self) -> dict[str, Any]:
        """Return the order as JSON for another process: parameters as text, and the given options."""
        if self.options.connection is not None:
            raise InvalidInput("An order for a connection cannot leave its process.", hint="Leave connection= out.")
        named = ((name, getattr(self.options, name)) for name in _TRAVELLING)
        return {
            "key": self.key,
            "version": self.version or None,
            "params": self.params,
            "checked": self.checked,
            "options": {name: _written(value) for name, value in named if value != getattr(PLAIN, name)},
        }

    def below(self, traceparent: str, tracestate: str | None) -> Order:
        """Return the order with a parent span and its trace state."""
        return self._replace(options=replace(self.options, traceparent=traceparent, tracestate=tracestate))

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Order:
        """Return the order that `to_json()` wrote; it comes from outside, so everything in it is validated."""
        if not isinstance(written, Mapping):
            raise InvalidInput(f"An order is an object, not {written!r:.80}.")
        _refuse_others(written, _PARTS, "of an order")
        options = written.get("options", {})
        if not isinstance(options, Mapping):
            raise InvalidInput(f"The options of an order are an object, not {options!r:.80}.")
        _refuse_others(options, _TRAVELLING, "of an order's options")
        key, version, checked = written.get("key"), written.get("version"), written.get("checked", True)
        if not isinstance(key, str) or not isinstance(checked, bool):
            raise InvalidInput(f"An order names its definition, not {key!r:.80}, and is checked or not.")
        if isinstance(version, bool) or not isinstance(version, int | None) or (version is None and checked):
            raise InvalidInput(f"{key}: an order's version is an integer, not {version!r:.80}.")
        params = _params(written.get("params"), key)
        return cls(key, version or 0, params, _options(options, key), checked)


@dataclass(frozen=True, slots=True)
class OrderMaker:
    """Makes orders for jobs of one definition, and validates their parameters."""

    key: str
    version: int
    validator: Validator
    defaults: str
    """Default parameters of each order, as JSON text."""
    key_of: KeyOf | None
    """How to get a concurrency key; empty if only code that is not loaded can compute it."""

    def order(self, params: Mapping[str, Any], options: EnqueueOptions, *, decoded: bool = False) -> Order:
        """Return an order; parameters that were `decoded` from JSON are only validated against the schema."""
        text = self.validator.text(params, self.defaults, decoded=decoded)
        if self.key_of is not None and options.concurrency_key is None:
            options = replace(options, concurrency_key=self._concurrency_key(text, self.key_of))
        return Order(self.key, self.version, text, options)

    def order_from_job(self, order: Order) -> Order:
        """Return an order from code inside a job, validated again; it has its key if only code can compute it."""
        text = self.validator.text(payload.load(order.params), self.defaults, decoded=True)  # type: ignore[arg-type]
        options = order.options
        if self.key_of and options.concurrency_key is None:
            options = replace(options, concurrency_key=self._concurrency_key(text, self.key_of))
        return order._replace(params=text, options=options)

    def _concurrency_key(self, params: str, key_of: KeyOf) -> str | None:
        if not key_of:
            raise InvalidInput(
                f"Only the code of {self.key!r} can compute the concurrency key, and it is not loaded here.",
                hint=Hint(
                    "Give the key: concurrency_key=….",
                    cli="Give the key: --concurrency-key KEY.",
                    http="Send the key as `concurrencyKey`.",
                ),
            )
        return concurrency_key(params, key_of, self.validator)


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple | set | frozenset) else value


def _params(text: object, key: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{key}: an order's params are JSON as text, not {text!r:.80}.")
    params = payload.decode(text, f"parameters of {key}")
    if not isinstance(params, dict):
        raise InvalidInput(f"Parameters of {key!r} must be an object, not {text[:80]}.")
    return payload.encode(params, f"parameters of {key}")


def _options(written: Mapping[str, Any], key: str) -> EnqueueOptions:
    """Convert only values that JSON cannot express; the rest is validated like user input."""
    given = dict(written)
    if given.get("run_at") is not None:
        try:
            given["run_at"] = datetime.fromisoformat(given["run_at"])
        except (TypeError, ValueError):
            raise InvalidInput(
                f"{key}: {given['run_at']!r:.80} is not a date and time.", hint="Write ISO 8601."
            ) from None
    if isinstance(given.get("reference"), list):
        given["reference"] = tuple(given["reference"])
    if isinstance(given.get("tags"), list):
        given["tags"] = tuple(given["tags"])
    return EnqueueOptions(**given)


def _refuse_others(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput(f"{name!r:.80} is not a part {what}.", hint=f"There are: {', '.join(known)}.")
