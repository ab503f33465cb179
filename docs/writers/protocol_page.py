"""The page of the protocol: all that a worker or client in another language must know."""

from __future__ import annotations

import re
from importlib import resources

from docs.writers.inspected import code, doc, fields_of, public_members, signature, table
from docs.writers.invariants import INVARIANTS, TABLES
from penstock.domain import definition, event, job, outcome, states, worker
from penstock.domain.ports import access, admin, control, feed, jobs, queue, schedules, store
from penstock.domain.schedule import schedule
from penstock.storage import migrations, statements

DIALECTS = ("postgres", "sqlite")
PORTS = (
    jobs.JobsPort,
    control.ControlPort,
    schedules.SchedulesPort,
    feed.FeedPort,
    admin.AdminPort,
    access.AccessPort,
    queue.Queue,
)
RECORDS = (
    job.Draft, job.Created, job.Claimed, job.Held, outcome.Outcome, outcome.Failure, outcome.Usage,
    outcome.Settlement, worker.WorkerInfo, worker.HeartbeatAnswer, worker.SettleReport, worker.Reclaimed, schedule.Tick,
    event.Event, event.News, definition.Definition,
)  # fmt: skip

_INTRODUCTION = """\
# Protocol

This page is for those who write a worker or a client in another language, or a store of their own. It is
generated from the source: schema, statements, ports and transitions are what the code has now.

A client needs [creating](#creating); a worker needs [working](#working) and the [invariants](#invariants).
Users of Python need only the [guide](../guide/enqueue.md)."""

_VALUES = """\
## Values

- **Ids** are UUIDs of version 7, lower case with hyphens; `uuid` in PostgreSQL, text in SQLite. Clients make the ids
  of their jobs, so a creation can be repeated when its answer was lost.
- **Times** are integer microseconds since 1970 in UTC, in both databases. So are durations.
- **The clock** is the store's: in PostgreSQL `clock_timestamp()` of the server; in SQLite the host's wall clock, and
  for leases the time since boot together with the boot's id.
- **Booleans** are `boolean` in PostgreSQL, 0 and 1 in SQLite.
- **Parameters and results** are the text of JSON: at most 1 MiB, 64 levels, integers of 64 bits, no NUL character, no
  lone surrogate, no NaN or infinity, no key twice.
- **Scoped keys.** `unique_key` and `limit_key` are `<definition key>|<the user's text>`.
- **Digest.** `idempotency.digest` is the first 32 hexadecimal digits of SHA-256 over the parameters written with sorted
  keys, no spaces, and everything beyond ASCII as `\\uXXXX`, the way Python's `json` does it."""

_MESSAGE = """\
## Messages of a queue

    {"penstockJobId": "01890a5d-ac96-774b-bcce-b302099a8057"}

A message is JSON with this one key and nothing more. It is sent after the job is committed, and acknowledged as soon as
the claim is committed or refused. A message that is garbage, a repetition, or names an unknown job is acknowledged and
dropped. With every message lost, all jobs still run, only later.

Without a broker the store wakes those who listen: PostgreSQL by `NOTIFY "penstock:<schema>"` with an empty payload,
SQLite by one datagram to every socket in a folder of the temporary directory. A wake-up may be lost
too: poll as well."""

_CREATING = """\
## Creating

Once per process, in a transaction of its own: `register_controls`, `hold_controls`, `register_definitions`,
`read_lanes` (the lane of each key and version), and `save_limits` with `bump_controls` where the newest version's
limits differ from those that are kept and no operator has set others. A client without code reads
`read_definitions` instead and checks parameters against the stored schema.

A job without keys and tags is one statement, `create_one`; many of them that differ in ids and parameters only are one
statement, too: `create_uniform`. All others, in one transaction, in this order:

1. For drafts with an idempotency key: `claim_keys`, sorted by (definition, key). Where another job answers, compare the
   digest: the same means that this is the job, another one is a conflict.
2. `create_jobs`. What is missing from the answer exists already (`find_jobs`), meets a unique key (`find_unique`), or
   is refused (`find_refusing`).
3. `touch_keys` for the concurrency keys of queued jobs, `tag_jobs` for the tags. Where a unique job answered instead of
   a draft, `move_keys` lets the draft's idempotency key lead to that job.
4. Commit, then admit the touched keys, then wake the workers.

To admit jobs of touched concurrency keys: `hold_keys`, then `admit` for the keys that it answers with their notes. On
SQLite that belongs to the transaction that touched the keys; on PostgreSQL it is a transaction of its own after the
commit, never one that has touched a key itself. Keys that are left are found by `touched_keys`."""

_WORKING = """\
## Working

1. `register_worker` with a new id and a lease (15 s by default); `heartbeat` every 3 s. No row in the answer to a
   heartbeat means that the lease is over: kill what runs, write nothing, take a new id. Its answer names the jobs to
   cancel.
2. `claim` with the lanes you serve and as many jobs as you have room for. A claim passes over definitions with limits
   unless it says that their lanes are granted; for that `lock_limited`, `count_running`, `lane_keys` and `read_buckets`
   come before it in the same transaction, and `save_buckets` after it.
3. `start` before the handler runs, unless the claim was told to do so.
4. Meanwhile `save_progress` with (job, fence, worker); `save_phase`, `save_logs` and `save_events` after
   `hold_attempt` in the same transaction, and only if that found the attempt.
5. However the attempt ended, decide what follows (the table below), then `settle` (those that just returned:
   `settle_done`), then `touch_keys` for the concurrency keys that the answer names, and admit them. A job that is not
   in the answer is either on record (`find_attempts`: success) or lost: write nothing more about it.
6. Some process must `promote` what is due, admit touched keys, reclaim jobs of dead workers (`expired_workers`,
   `worker_jobs`, `settle`, `end_worker`), tick schedules, fold counts and apply retention. All of it is safe
   to run anywhere, any number of times at once."""

_DECIDING = f"""\
### What follows from an ending

| ending | the job is then | attempt | also |
| --- | --- | --- | --- |
| succeed | succeeded | counts | `lost` = 0 |
| ask for review | review_needed | counts | a `review` row; `lost` = 0 |
| fail, attempts left and worth another | scheduled, after the backoff or as the handler asked | counts | `lost` = 0 |
| fail, otherwise | failed | counts | `lost` = 0 |
| snooze | scheduled, as the handler asked | given back | `lost` = 0 |
| release | queued | given back | |
| lose, losses below {outcome.MAX_LOSSES} | scheduled: 1 s, then the backoff | given back | `lost` + 1 |
| lose, otherwise | failed | counts | `lost` + 1 |
| any, while cancelling | cancelled | as above | the result is kept with the attempt |"""

_TYPES = """\
The two schemas have the same tables and columns, with these differences:

| PostgreSQL | SQLite | |
| --- | --- | --- |
| `uuid` | `TEXT` | |
| `smallint`, `integer`, `bigint` | `INTEGER` | |
| `boolean` | `INTEGER` | 0 or 1 |
| `double precision` | `REAL` | |
| `uuid[]`, `bigint[]` | `TEXT` | a JSON list |
| `key_note` | – | concurrency keys are touched and admitted in one transaction |
| `event.xid`, `.ended`, `.begun`, `feed_horizon.xid` | – | transactions commit out of order: a cursor needs them |
| – | `worker.boot` | leases count from the boot of the host there |

In the text below `{schema}` is the schema's name, quoted, and states are named: see [status codes](#status-codes).
`penstock db sql` prints the text with codes."""


def write() -> str:
    newest = ", ".join(f"{name} {migrations.newest(name)}" for name in DIALECTS)
    return "\n\n".join(
        [
            _INTRODUCTION,
            f"Schema versions: {newest}.",
            _VALUES,
            _statuses(),
            _transitions(),
            _MESSAGE,
            _CREATING,
            _WORKING,
            _DECIDING,
            _causes(),
            _invariants(),
            _ports(),
            _records(),
            _statements(),
            _schema(),
        ]
    )


def tables() -> set[str]:
    """The tables that the migrations of all dialects make."""
    made = re.compile(r"^CREATE TABLE (?:\{schema\}\.)?(\w+)", re.MULTILINE)
    return {name for each in DIALECTS for step in migrations.all_of(each) for name in made.findall(step.text)}


def _statuses() -> str:
    rows = [
        (
            str(status.code),
            f"`{status}`",
            "yes" if status in states.LIVE else "",
            "yes" if status.terminal else "",
            "derived: an ended job past its `stale_at`; never stored" if status is states.Status.STALE else "",
        )
        for status in states.Status
    ]
    rows += [
        (str(number), f"`{name}`", "", "", "reserved: a state to come; not stored yet")
        for name, number in states.RESERVED.items()
    ]
    names = {**{status.code: str(status) for status in states.Status}, **_reserved()}
    sets = [(f"`{name}`", ", ".join(f"`{names[each]}`" for each in codes)) for name, codes in states.SETS.items()]
    return "\n\n".join(
        [
            "## Status codes",
            table(("code", "status", "live", "ended", ""), rows),
            "A state keeps its code for ever; the order of codes means nothing. The files of statements and migrations "
            "name states: `{queued}` is a code, and `status IN {ended}` membership in one of these sets. PostgreSQL "
            "gets a list, `status IN (5, 6, 7)`; so does SQLite for sets of two, and for others the bits of a number, "
            "`(224 >> status & 1)`.",
            table(("set", "its states"), sets),
        ]
    )


def _reserved() -> dict[int, str]:
    return {number: name for name, number in states.RESERVED.items()}


def _transitions() -> str:
    rows = [
        (
            f"`{trigger}`",
            f"`{status}`" if status else "–",
            ", ".join(f"`{each}`" if each else "gone" for each in _sorted(to)),
        )
        for (status, trigger), to in states.TABLE.items()
    ]
    diagram = code(states.mermaid(), "mermaid")
    return "\n\n".join(["## Transitions", table(("trigger", "from", "to"), rows), diagram])


def _causes() -> str:
    names = ", ".join(f"`{each}`" for each in outcome.Cause)
    return f"`attempt.cause` is one of {names}. Event kinds stand on [their own page](events.md)."


def _invariants() -> str:
    lines = [
        f"{number}. **{title}.** {sentence}" + (f" ({', '.join(f'`{name}`' for name in names)})" if names else "")
        for number, (title, sentence, names) in enumerate(INVARIANTS, 1)
    ]
    opening = "What holds after every commit. Names in parentheses: constraints and indexes that refuse the contrary."
    return "\n\n".join(["## Invariants", opening, "\n".join(lines)])


def _ports() -> str:
    parts = ["## Ports", doc(store).partition("\n\n")[2]]
    for port in PORTS:
        parts += [f"### {port.__name__}", doc(port)]
        for name, member in public_members(port):
            parts += [f"#### {port.__name__}.{name}", code(signature(member, name)), doc(member)]
    return "\n\n".join(part for part in parts if part)


def _records() -> str:
    parts = [
        "## Records",
        "What verbs take and give. `definition.body` is the JSON of `Definition` with these field names; `backoff` is "
        "one of the three forms below, `rate_limit` an object with `count`, `period` (seconds) and `per_key`, or null.",
        code(
            '{"kind": "backoff", "base": 5, "max": 3600, "jitter": 0.2}\n'
            '{"kind": "fixed", "seconds": 10}\n'
            '{"kind": "steps", "seconds": [1, 10, 60]}',
            "json",
        ),
    ]
    for record in RECORDS:
        rows = [
            (f"`{each.name}`", f"`{each.type}`", f"`{each.default}`" if each.default else "", each.note)
            for each in fields_of(record)
        ]
        parts += [f"### {record.__name__}", doc(record), table(("field", "type", "default", ""), rows)]
    return "\n\n".join(parts)


def _statements() -> str:
    links = "; ".join(f"`{each}`: [the files](../../src/penstock/storage/sql/{each}/)" for each in DIALECTS)
    parts = [
        "## Statements",
        f"Each dialect has the same names. The texts: {links}. A list is put together from `{{filters}}` and "
        "`{order}`, which are statements of this table themselves.",
    ]
    sentences = statements.read("postgres")
    for file in statements.FILES:
        names = [name for name in _names_in(file) if name in sentences]
        if names:
            rows = ((f"`{name}`", sentences[name].sentence) for name in names)
            parts += [f"### {file}.sql", table(("statement", "what it does"), rows)]
    return "\n\n".join(parts)


def _names_in(file: str) -> list[str]:
    text = (resources.files("penstock.storage") / "sql" / "postgres" / f"{file}.sql").read_text(encoding="utf-8")
    return re.findall(r"^-- name: (\w+)", text, re.MULTILINE)


def _schema() -> str:
    if tables() | {"migration"} != TABLES.keys():
        raise ValueError(f"tables and their sentences differ: {sorted((tables() | {'migration'}) ^ TABLES.keys())}")
    parts = [
        "## Schema",
        table(("table", "what it holds"), ((f"`{name}`", sentence) for name, sentence in TABLES.items())),
        _TYPES,
    ]
    for dialect in DIALECTS:
        for step in migrations.all_of(dialect):
            parts += [f"### {dialect} {step.version:04}: {step.name}", code(step.source.strip(), "sql")]
    return "\n\n".join(parts)


def _sorted(targets: frozenset[states.Status | None]) -> list[states.Status | None]:
    return sorted(targets, key=lambda each: -1 if each is None else each.code)
