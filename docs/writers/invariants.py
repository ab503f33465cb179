"""What must hold in every store at every moment, in words. The protocol page prints it."""

from __future__ import annotations

# A sentence, and the constraints or indexes of the schema that refuse the contrary; a test looks for their names.
INVARIANTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Born whole", "A `job` row, its `job_detail` row and its `job.enqueued` event are committed together.", ()),
    ("One table of moves", "A status changes only as the table of transitions says.", ()),
    (
        "Owned while live",
        "A job names a worker exactly while it is `running` or `cancelling`.",
        ("job_owned",),
    ),
    (
        "Fences rise",
        "`fence` starts at 0 and rises by one at each claim; it never falls, not even when a job is retried by hand. "
        "A job that was never claimed cannot be running, in review or succeeded.",
        ("job_was_claimed",),
    ),
    (
        "Only the holder writes",
        "Every write of an attempt (start, progress, phase, log, event, ending) is applied only where (job, fence, "
        "worker) matches and the status is `running` or `cancelling`. Otherwise nothing is written and the writer "
        "gets an error. The fence alone is not enough: a failover or a restore that loses claims gives the same fence "
        "out again.",
        (),
    ),
    (
        "One record per attempt",
        "An ended attempt has one row, keyed by (job, fence). To settle it again, by the worker that it names, is "
        "success and changes nothing.",
        (),
    ),
    (
        "One outcome",
        "`finished_at`, `stale_at` and `retire_at` are set exactly while a job is ended. Only a retry by hand "
        "leaves an end, and it begins a new generation.",
        ("job_ended", "job_retained"),
    ),
    (
        "Cancel means cancel",
        "From `cancelling` every ending of the attempt leads to `cancelled`, a success included.",
        ("job_asked_to_stop",),
    ),
    (
        "Claims need a live lease",
        "A claim looks at the worker's lease by the store's clock in the same statement. A lease that has ended "
        "never lives again: the worker takes a new id.",
        (),
    ),
    (
        "Losses are charged once begun",
        "An attempt whose worker is gone counts as lost only when `started_at` is set; otherwise it is released and "
        "costs nothing.",
        (),
    ),
    (
        "Order",
        "Claims take jobs by (`rank`, `id`), where `rank = due_at - priority × ageing`, fixed when the job is "
        "queued and when its time or its priority is set. `ageing` is the value of the row `ageing` of the table "
        "`setting`, in microseconds (600000000 where there is none), read by the statement that sets the rank; the "
        "field `ageing` of the worker configuration writes it. A claim with several lanes "
        "never takes a job ranked after one that it left out because "
        "a lane had given its quota.",
        (),
    ),
    (
        "Limits count rows",
        "Running jobs of a limited definition are counted under a lock on its `control` row, never kept as a number. "
        "Of one concurrency key at most `key_concurrency` jobs are admitted (queued and not blocked, or live); the "
        "rest are blocked, and the transaction that frees a place admits the next.",
        ("job_held_back",),
    ),
    (
        "Unique while active",
        "Of one unique key there is at most one job that has not ended.",
        ("job_unique",),
    ),
    (
        "Idempotency keys",
        "A (definition, key) leads to one job. It outlives that job, and does not expire while the job is active.",
        (),
    ),
    ("Ticks", "Each (schedule, instant) has at most one row in `tick`, and so makes at most one job.", ()),
    (
        "Events tell what is committed",
        "An event is written in the transaction of its change. A reader of the feed sees each committed event "
        "exactly once, also those that commit out of order, or gets an error if some were deleted.",
        (),
    ),
    (
        "Bundles are found by time",
        "A row of `event` is one event, or with `jobs` the same event of up to 1000 jobs. The number of an event is "
        "`seq * 1024`, plus its place in `jobs`. The `at` of such a row is `created_at` of its jobs, or `started_at` "
        "or `ended_at` of their attempts, and nothing changes those; a `job.deleted` keeps them in `times`.",
        ("event_bundled",),
    ),
    ("Phases are kept", "A completed phase is never written again; only a retry by hand may forget it.", ()),
    (
        "Counts",
        "The number of jobs of a lane in a status is `tally` + the sum of `tally_delta`. Who changes a status "
        "appends deltas and updates no shared row.",
        (),
    ),
    (
        "Queues hint",
        "A message of a queue says where to look. What may run is decided by the store alone.",
        (),
    ),
)

TABLES = {
    "control": "What operators say about a definition, with its limits, one row per key; `*` is the whole system.",
    "definition": "Definitions by key and version; `lane` is their short number, `body` the JSON described below.",
    "worker": "Workers and their leases.",
    "job": "The hot row: what changes while a job lives.",
    "job_detail": "What never changes about a job; its parameters among them.",
    "job_tag": "Tags, to find jobs by.",
    "idempotency": "Idempotency keys and the jobs they lead to.",
    "attempt": "Attempts that have ended.",
    "progress": "How far the newest attempt has come.",
    "phase": "Phases of jobs and their results.",
    "review": "What people were asked, and what they said.",
    "log": "Log lines of attempts.",
    "key_note": "PostgreSQL only: concurrency keys whose jobs have changed, until more of them are admitted.",
    "unserved_lane": "Lanes that no live worker serves while another version is served.",
    "bucket": "Rate limits: the instant at which each bucket is full again.",
    "schedule": "Schedules.",
    "tick": "Instants of schedules that were made or passed over.",
    "tally": "Counts by lane and status, folded.",
    "tally_delta": "Changes of counts that are not folded yet.",
    "tally_span": "Arrivals in a status by minute, by hour, and ever, with the time that it took.",
    "tally_length": "The same by how long it took, in buckets.",
    "event": "The feed; a row is one event, or the same event of many jobs.",
    "hook": "Endings of jobs whose definitions have hooks, until a worker takes them.",
    "feed_horizon": "The newest event that retention has removed.",
    "setting": "Stored settings.",
    "alert": "What operators should look at: since when, and until when.",
    "audit": "Changes that operators made.",
    "access": "Since when callers need a token.",
    "token": "Tokens: who they belong to, their roles, and the digests of their secrets.",
    "session": "Sessions of tokens, until they end.",
    "migration": "Which migrations were applied, with their checksums. Made by the migrator itself.",
    "webhook": "Endpoints that asked for webhooks, with their secrets.",
    "receiver": "Endpoints, and the hosts of other URLs: how well they are, and whose turn it is.",
    "delivery": "Events on their way to receivers, with the body that is sent; one per endpoint and event.",
    "delivery_try": "What came back of each try of a delivery.",
    "webhook_feed": "How far the feed was read for webhooks.",
}
