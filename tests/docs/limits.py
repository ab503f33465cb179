"""Every number that a page states, made from the code: words of the page, with the code's values filled in.

When a sentence is reworded, reword it here too; when a new one states a limit, add it. A number that is no limit of
penstock's code goes to `WITHOUT_CODE`, with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from penstock import Penstock
from penstock.background import scheduler
from penstock.config.settings import BY_NAME
from penstock.config.worker_settings import WorkerSettings
from penstock.definitions import enqueue_options
from penstock.domain import trace_context, worker_config
from penstock.domain.instant import DAY, SECOND
from penstock.domain.job_list import JobFilter
from penstock.domain.schedule import cron, due_ticks
from penstock.domain.secrets import scrubbing
from penstock.domain.webhook import endpoint
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.worker_config import AlertThresholds
from penstock.http import body_limits as bodies
from penstock.integrations import webhook_receiver
from penstock.isolation.output import MOST_BYTES
from penstock.launch import consume
from penstock.operations import bulk
from penstock.runtime import pace
from penstock.storage.commands import list_planner, listing, stats
from penstock.storage.commands import webhooks as deliveries
from penstock.storage.postgres import store
from penstock.testing import TestApp
from penstock.worker import heartbeat, zygote_supervisor
from penstock.worker.queue_messages import _MOST as _MOST_MESSAGES
from tests.docs.internals import MOST as _MOST_FUNCTIONS

_ALERTS, _WORKER, _WEBHOOKS = AlertThresholds(), WorkerSettings(), WebhookSettings()
_CONNECTION: dict[str, Any] = conninfo_to_dict(
    store._conninfo("postgresql://host/x", pooler=False, statement_seconds=30.0)
)
_SILENCE = int(_CONNECTION["keepalives_idle"]) + 3 * int(_CONNECTION["keepalives_interval"])
_TRUST = _WORKER.lease - _WORKER.margin


def default(function: Callable[..., Any], name: str) -> Any:
    """What a function takes when a parameter is not given."""
    return inspect.signature(function).parameters[name].default


def _length(seconds: float) -> str:
    """A length of time as the page on webhooks writes it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


_PAUSES = [_length(each) for each in _WEBHOOKS.retries]
_KIB = 1024

STATED: dict[str, list[str]] = {
    "SECURITY.md": [f"| address | {BY_NAME['web.host'].default}; others are refused"],
    "docs/concepts.md": ["at most `key_concurrency` jobs (1 unless set)"],
    "docs/decisions/0017-lists-choose-their-way.md": [
        f"counting up to {list_planner.MEASURED:,}, and takes the smallest. Up to {list_planner.LITTLE:,} are gathered",
        f"as many jobs as it counts at most ({default(Penstock.count_jobs, 'cap'):,})",
    ],
    "docs/guide/configuration.md": [
        f"a JSON object of at most {worker_config._MOST_CUSTOM // _KIB} KiB",
        f"(an hour ago by default, {stats.LONGEST // DAY} days at most)",
        "(of the last 24 hours by default)",
        f"more than `failureRate` ({_ALERTS.failure_rate:g}) of a definition's jobs that ended in the last `window` "
        f"({_ALERTS.window:g} seconds) have failed, and at least `leastSample` ({_ALERTS.least_sample}) ended",
        f"more than `depth` ({_ALERTS.depth}) jobs",
        f"more than `stuck` ({_ALERTS.stuck:g}) seconds beyond what is usual: the 95th percentile",
        f"`endpointFailures` ({_ALERTS.endpoint_failures}) tries",
        f"Only the newest {stats.LOOK:,} failures are looked at",
    ],
    "docs/guide/control.md": [f"{bulk.BATCH} in one transaction and at most `limit` ({bulk.MOST:,}) in all"],
    "docs/guide/enqueue.md": [
        f"Texts have 1 to {enqueue_options._LONGEST_TEXT} characters (`webhook_url`: {enqueue_options._LONGEST_URL:,}, "
        f"`tracestate`: {trace_context._LONGEST_STATE})",
        f"up to {enqueue_options._MOST_TAGS} texts to find it by",
        f"A page has up to {listing.MOST} jobs",
        "at least 16 |",
        "| `jitter` | 0 | the largest number of seconds",
    ],
    "docs/guide/http.md": [f"Bodies of {bodies.LARGE // _KIB} KiB and more are read"],
    "docs/guide/isolation.md": [
        f"| `processes` | processes of the job ({_WORKER.processes} by default)",
        f"{MOST_BYTES // _KIB} KiB of each output stream, {_MOST_MESSAGES:,} log lines"],
    "docs/guide/live-events.md": ["`limit` | 1 to 500, of a list; 100 by default |"],
    "docs/guide/observing.md": [
        f"{stats.DEEPEST:,} at most |",
        f"more than {trace_context._MOST_MEMBERS} members or more than {trace_context._LONGEST_STATE} characters",
    ],
    "docs/guide/queues.md": [f"in seconds ({default(consume.consume, 'within')} by default)"],
    "docs/guide/schedules.md": [
        f"`timezone` (default {default(Penstock.schedule, 'timezone')})",
        f"more than {cron.MAX_LENGTH} characters",
        f"up to {due_ticks.GRACE // SECOND} seconds late is on time",
        f"`missed_max` ({default(Penstock.schedule, 'missed_max')}; at most {due_ticks.MOST_MADE_UP:,})",
        f"again after {scheduler._FIRST_REST:g} second, then {2 * scheduler._FIRST_REST:g}, up to a minute",
    ],
    "docs/guide/secrets.md": [f"more than {scrubbing._MOST_CHARACTERS:,} characters"],
    "docs/guide/stores.md": [
        f"Up to {default(store.PostgresStore, 'pool_size')} for the threads of a process, and up to "
        f"{default(store.PostgresStore, 'pool_size')} more for each event loop.",
        f"waits at most {store._POOL_SECONDS:g} s for a free one",
    ],
    "docs/guide/testing.md": [f"`limit` attempts ({default(TestApp.drain, 'limit'):,}) were made"],
    "docs/internals/one-job.md": [f"the way is at most {_MOST_FUNCTIONS} functions long"],
    "docs/guide/webhooks.md": [
        f"more than {webhook_receiver.PAST_SECONDS:g} seconds old or {webhook_receiver.FUTURE_SECONDS:g} seconds ahead",
        f"no answer in {_WEBHOOKS.timeout:g} s",
        f"after {', '.join(_PAUSES[:-1])} and {_PAUSES[-1]}",
        "`Retry-After` of a 429 or 503 is respected, up to a day",
        f"After five failures in a row its messages wait for {_WEBHOOKS.breaker_pause:g} s",
        "| `poll` | 1 s | how long events wait at most",
    ],
    "docs/guide/workers.md": [
        "| `--poll` | 1 s | how long it waits at most",
        f"each wait longer, up to {pace._LONGEST_BETWEEN_CLAIMS:g} s |",
        f"After {_TRUST / 2 / _WORKER.lease * 100:.0f} % of the lease ({_TRUST / 2:g} s by default)",
        f"After {_TRUST / _WORKER.lease * 100:.0f} % of the lease ({_TRUST:g} s by default, "
        f"{heartbeat._SHORTEST_PATIENCE:g} s for very short leases) the worker kills its processes and ends with exit "
        f"code {heartbeat.EXIT_UNTRUSTED}",
        f"after {zygote_supervisor._FIRST_PAUSE:g} s, then less often, up to every "
        f"{zygote_supervisor._LONGEST_PAUSE:g} s |",
        f"takes more than {zygote_supervisor._SLOW:g} s to load",
    ],
}  # fmt: skip
"""By page: words that state numbers. Numbers of a sentence that no entry holds are found out."""

WITHOUT_CODE: dict[str, dict[str, str]] = {
    "docs/guide/http.md": {"up to 40 times its size of memory": "measured, by bench/"},
    "docs/guide/schedules.md": {"each at most once: `1d`, `1h30m`, `90s`": "examples of intervals"},
    "docs/guide/workers.md": {"not more than about 10 seconds old": "a heartbeat, and the longest of its pauses"},
}
"""By page: words with a number that no constant holds, each with the reason."""

IN_WORDS: dict[str, Callable[[], bool]] = {
    # Without `error` and `params`, which are searched for.
    "has eleven filters and six orders": lambda: len(fields(JobFilter)) - 2 == 11,
    "five failures in a row": lambda: _WEBHOOKS.breaker_failures == 5,
    "up to ten minutes": lambda: endpoint._LONGEST_PAUSE == 600,
    "up to a day": lambda: endpoint._LONGEST_RETRY_AFTER == 86_400,
    "There are ten tries": lambda: len(_WEBHOOKS.retries) + 1 == 10,
    "two messages at the same time at most": lambda: _WEBHOOKS.per_receiver == 2,
    "has arrived for five days (`disable_after`)": lambda: _WEBHOOKS.disable_after == 5 * 86_400,
    "at least ten tries": lambda: deliveries.LEAST_FAILURES == 10,
    "then 2, up to a minute": lambda: scheduler._LONGEST_REST == 60,
}
"""Numbers in words, in any page."""


def deadlines() -> dict[str, str]:
    """The table of deadlines in the page on stores."""
    return {
        "connecting": f"{int(_CONNECTION['connect_timeout'])} s",
        "a statement": f"{default(store.PostgresStore, 'statement_seconds'):g} s",
        "an idle open transaction of ours": f"{store._IDLE_MILLISECONDS / 1000:g} s",
        "a peer that does not answer": f"{int(_CONNECTION['tcp_user_timeout']) // 1000} to {_SILENCE} s "
        "(TCP user timeout and keepalives)",
    }
