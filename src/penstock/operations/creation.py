"""Creates jobs: orders are checked, routed, made drafts and inserted, and the workers are notified."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.definitions.order_maker import OrderMaker
from penstock.definitions.schedule_options import tick_options
from penstock.definitions.signature import Validator, plain_text
from penstock.domain import payload
from penstock.domain.context import Errands
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.job import Alike, Created, Draft
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.schedule import Schedule
from penstock.operations.job_reading import known_definition, stored_job
from penstock.operations.memory import Routes
from penstock.operations.session import ApplicationSession, Errand, Talk, not_inside_a_job, on
from penstock.runtime import tracing
from penstock.storage.commands import admin, jobs
from penstock.surface import enqueue_options as given
from penstock.surface.definitions import RegisterDefinitions
from penstock.surface.jobs import RerunJob
from penstock.surface.orders import EnqueueOptions, Order
from penstock.surface.schedules import TriggerSchedule


def order_by_name(
    session: ApplicationSession,
    key: str,
    params: Mapping[str, Any] | None,
    version: int | None,
    options: EnqueueOptions,
) -> Talk[Order]:
    """An order by name: checked by the code, or by what the store knows of the definition."""
    if not isinstance(key, str) or not isinstance(version, int | None):
        raise InvalidInput(f"A definition is named by a text and an integer, not by {key!r:.80} and {version!r:.80}.")
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(f"Parameters of {key!r} must be a mapping by name, not {params!r:.80}.")
    if session.errands is not None and session.declarations.handle(key, version) is None:
        text = plain_text(dict(params or {}), f"parameters of {key}")
        return Order(key, version or 0, text, options, checked=False)
    maker = yield from order_maker(session, key, version)
    return maker.order(params or {}, options)


def order_maker(session: ApplicationSession, key: str, version: int | None) -> Talk[OrderMaker]:
    """What makes orders of a definition: the code, or what the store knows of it."""
    own = session.declarations.handle(key, version)
    if own is not None:
        return own._order_maker
    row = yield from known_definition(session, key, version)
    definition = row.definition
    validators = session.memory.validators
    validator = validators.get((key, definition.schema))
    if validator is None:
        validator = Validator(key, definition.schema, definition.secret_fields)
        validators[key, definition.schema] = validator
    return OrderMaker(key, definition.version, validator, definition.default_params, definition.concurrency_key)


def enqueue(
    session: ApplicationSession,
    key: str,
    params: Mapping[str, Any] | None,
    version: int | None,
    options: EnqueueOptions,
) -> Talk[list[Created]]:
    """Create one job of a definition that is given by its key."""
    order = yield from order_by_name(session, key, params, version, options)
    return (yield from create(session, [order]))


def create(
    session: ApplicationSession, orders: Sequence[Order], connection: Any = None, **facts: str | None
) -> Talk[list[Created]]:
    """Create jobs and notify the workers, unless it is the caller's commit that makes the jobs."""
    if not orders:
        return []
    connection = _one_connection(orders, connection)
    first = orders[0].options
    span = tracing.enqueue([order.key for order in orders], first.traceparent, first.tracestate)
    if span is None:
        return (yield from _create(session, orders, connection, facts))
    created: list[Created] = []
    try:
        traced = [order.below(span.traceparent, span.tracestate) for order in orders]
        created = yield from _create(session, traced, connection, facts)
    except BaseException as error:
        span.fail(error)
        raise
    finally:
        span.end([each.job_id for each in created])
    return created


def create_for_job(session: ApplicationSession, orders: Sequence[Order]) -> Talk[list[Created]]:
    """Create the jobs of orders that come from code inside a job: those called checked are checked again."""
    checked: list[Order] = []
    for order in orders:
        if order.checked:
            order = (yield from order_maker(session, order.key, order.version)).order_from_job(order)
        checked.append(order)
    return (yield from create(session, checked))


def drafts(session: ApplicationSession, orders: Sequence[Order], **facts: str | None) -> Talk[Sequence[Draft]]:
    """The drafts of checked orders, for a caller that keeps those of several callers together."""
    yield from _route(session, orders, session.memory.routes, None)
    made = given.drafts(orders, session.memory.routes, session.ids.many(len(orders)), **facts)
    _check_webhooks(session, made)
    return made


def keep_drafts(session: ApplicationSession, made: Sequence[Draft], connection: Any = None) -> Talk[list[Created]]:
    """Make jobs of drafts, all or none, and notify the workers."""
    created = yield from _insert(made, connection)
    new = [each.job_id for each in created if each.created]
    if new and connection is None:
        session.connections.guarded_queue.publish(new)
    return created


def rerun_job(session: ApplicationSession, asked: RerunJob) -> Talk[Created]:
    params = asked.params
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(f"Parameters must be a mapping by name, not {params!r:.80}.")
    job = yield from stored_job(asked.job_id)
    chosen = given.enqueue_options({**given.as_before(job, same=not params), **asked.options})
    merged = {**job.params, **(params or {})}
    order = yield from order_by_name(session, job.definition_key, merged, job.definition_version, chosen)
    (created,) = yield from create(session, [order], rerun_of=job.id, actor=given.actor(asked.by))
    return created


def register_definitions(session: ApplicationSession, _: RegisterDefinitions) -> Talk[dict[tuple[str, int], int]]:
    known = session.declarations.definitions
    yield from _register_on(session, list(known), session.memory.routes, None)
    return {pair: session.memory.routes[pair].lane for pair in known}


def trigger_schedule(session: ApplicationSession, asked: TriggerSchedule, schedule: Schedule) -> Talk[Created]:
    """Create the job of a schedule now."""
    order = yield from _schedule_order(session, schedule, None)
    (created,) = yield from create(session, [order], schedule=asked.key, actor=given.actor(asked.by))
    return created


def tick_draft(session: ApplicationSession, schedule: Schedule, instant: int) -> Talk[Draft]:
    """The job of one tick of a schedule."""
    order = yield from _schedule_order(session, schedule, due_ticks.due_at(schedule, instant))
    yield from _route(session, [order], session.memory.routes, None)
    route = session.memory.routes[order.key, order.version]
    return given.draft(order, route, session.ids.new_id(), schedule=schedule.key)


def _create(
    session: ApplicationSession, orders: Sequence[Order], connection: Any, facts: Mapping[str, str | None]
) -> Talk[list[Created]]:
    if session.errands is not None:
        made: list[Created] = yield _errand(session.errands, orders, connection)
        return made
    if False in [order.checked for order in orders]:
        orders = yield from _checked(session, orders)
    routes, register_on = session.memory.routes, None
    if connection is not None and session.store.dialect == "sqlite":
        # There is one writer, and that is the caller now. It may still roll back what it registers.
        routes, register_on = dict(routes), connection
    yield from _route(session, orders, routes, register_on)
    ready = given.drafts(orders, routes, session.ids.many(len(orders)), **facts)
    _check_webhooks(session, ready)
    return (yield from keep_drafts(session, ready, connection))


def _schedule_order(session: ApplicationSession, schedule: Schedule, due: int | None) -> Talk[Order]:
    """The order for the job of a schedule that is due at an instant, or now."""
    params: Any = payload.load(schedule.params_text)
    options = tick_options(schedule, due)
    return (yield from order_by_name(session, schedule.definition_key, params, schedule.definition_version, options))


def _checked(session: ApplicationSession, orders: Sequence[Order]) -> Talk[list[Order]]:
    """The orders, including those that came from where their definition was not known."""
    checked: list[Order] = []
    for order in orders:
        if not order.checked:
            params: Any = payload.load(order.params)
            order = yield from order_by_name(session, order.key, params, order.version or None, order.options)
        checked.append(order)
    return checked


def _check_webhooks(session: ApplicationSession, made: Sequence[Draft]) -> None:
    """Refuse URLs that webhooks may not be sent to, by the rules for endpoints."""
    # Not `isinstance`, which asks the abstract base class and takes longer.
    urls = {made.first.webhook_url} if type(made) is Alike else {each.webhook_url for each in made}
    for url in urls:
        if url is not None:
            session.webhook_settings.check(url)


def _route(session: ApplicationSession, orders: Sequence[Order], routes: Routes, register_on: Any) -> Talk[None]:
    """Learn where the jobs go; definitions of this process are registered on the way."""
    wanted = {(order.key, order.version) for order in orders} - routes.keys()
    if not wanted:
        return
    known = session.declarations.definitions
    if wanted & known.keys():
        due = known.keys() - routes.keys() if register_on is None else wanted
        yield from _register_on(session, due, routes, register_on)
    for key, version in sorted(wanted - routes.keys()):
        row = yield from known_definition(session, key, version)
        routes[key, version] = given.routed(row.lane, row.definition)


def _register_on(
    session: ApplicationSession, due: Collection[tuple[str, int]], routes: Routes, connection: Any
) -> Talk[None]:
    fresh = {pair: each for pair, each in session.declarations.definitions.items() if pair in due}
    full = [replace(each.definition, schema=each.schema) for each in fresh.values()]
    lanes = yield on(connection, admin.register(full))
    routes |= {pair: given.routed(lanes[pair], each.definition) for pair, each in fresh.items()}


def _insert(made: Sequence[Draft], connection: Any) -> Talk[list[Created]]:
    try:
        created: list[Created] = yield on(connection, jobs.create(made))
    except NotFound as error:
        if connection is None or error.kind != "definition":
            raise
        raise Conflict(
            f"The transaction began before definition {error.name!r} was registered, and does not see it.",
            hint="Roll it back and begin again.",
        ) from error
    return created


def _one_connection(orders: Sequence[Order], connection: Any) -> Any:
    """The connection that all of the orders are to be created on, or None."""
    if set(map(type, orders)) != {Order}:
        stranger = next(each for each in orders if type(each) is not Order)
        raise InvalidInput(f"{stranger!r:.80} is no order.", hint="Make orders by handle.order(…).")
    for options in {id(order.options): order.options for order in orders}.values():
        wanted = options.connection
        if wanted is not None and connection is not None and wanted is not connection:
            raise InvalidInput("Orders for different connections cannot be created together.")
        connection = connection if wanted is None else wanted
    return connection


def _errand(errands: Errands, orders: Sequence[Order], connection: Any) -> Errand:
    """Have the worker create the jobs; errors in the orders are raised here, where they were written."""
    if connection is not None:
        raise not_inside_a_job("enqueue with connection=")
    for order in orders:
        given.check(order)
    return Errand(partial(errands.create, [order.to_json() for order in orders]))
