-- The ground: definitions, jobs and what belongs to them, schedules, workers, the feed.
-- Times are microseconds since 1970 (UTC); only worker.lease_until counts from the start of the boot
-- named in worker.boot, so that a jump of the wall clock ends no lease.
-- Statuses: 0 scheduled, 1 queued, 2 running, 3 cancelling, 4 review_needed, 5 succeeded, 6 failed,
-- 7 cancelled; from 5 on a job has ended.

-- Controls of operators, one row per definition key; the row '*' is the whole system.
CREATE TABLE control (
    key TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL DEFAULT 1,
    pause_reason TEXT,
    pause_by TEXT,
    pause_at INTEGER,
    pause_until INTEGER,
    concurrency INTEGER NOT NULL DEFAULT 0 CHECK (concurrency >= 0),
    key_concurrency INTEGER NOT NULL DEFAULT 0 CHECK (key_concurrency >= 0),
    rate_count INTEGER NOT NULL DEFAULT 0 CHECK (rate_count >= 0),
    rate_period INTEGER NOT NULL DEFAULT 0,
    rate_per_key INTEGER NOT NULL DEFAULT 0,
    priority INTEGER CHECK (priority BETWEEN 0 AND 20),
    max_attempts INTEGER CHECK (max_attempts >= 1),
    overrides TEXT NOT NULL DEFAULT '{}',
    -- No code declares it any more, says an operator; code that does takes this back.
    retired_at INTEGER,
    retired_by TEXT,
    revision INTEGER NOT NULL DEFAULT 1,
    CONSTRAINT control_retired CHECK ((retired_at IS NULL) = (retired_by IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE definition (
    lane INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL REFERENCES control,
    version INTEGER NOT NULL CHECK (version >= 1),
    body TEXT NOT NULL,
    -- The file that the handler is in; the body says it too.
    source TEXT NOT NULL DEFAULT '',
    stale_after INTEGER NOT NULL,
    delete_after INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    -- When code last declared it, to the hour.
    declared_at INTEGER NOT NULL,
    -- Its row stays: ended jobs of it can be read, and their secret parameters stay masked.
    removed_at INTEGER,
    hooked INTEGER NOT NULL DEFAULT 0,
    UNIQUE (key, version)
) STRICT;

CREATE TABLE worker (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    lanes TEXT NOT NULL,
    slots INTEGER NOT NULL,
    code_version TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    boot TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    ended TEXT CHECK (ended IN ('stopped', 'lost')),
    -- Its last report on duties (JSON), and when.
    duties TEXT NOT NULL DEFAULT '[]',
    duties_at INTEGER,
    -- Its counters (JSON), as of then.
    figures TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE INDEX worker_lease ON worker (lease_until) WHERE ended IS NULL;

-- The hot row: what changes while a job lives. Everything about it that never changes is in job_detail.
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    lane INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),
    status INTEGER NOT NULL CHECK (status IN {stored}),
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 20),
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
    lost INTEGER NOT NULL DEFAULT 0 CHECK (lost >= 0),
    generation INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
    blocked INTEGER NOT NULL DEFAULT 0,
    rate_paid INTEGER NOT NULL DEFAULT 0,
    retired INTEGER NOT NULL DEFAULT 0,
    rank INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    queued_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    cancel_at INTEGER,
    stale_at INTEGER,
    retire_at INTEGER,
    worker TEXT,
    -- The worker of a successful attempt without result. It has no row in attempt: this row records it.
    done_by TEXT,
    limit_key TEXT,
    unique_key TEXT,
    CONSTRAINT job_owned CHECK ((worker IS NOT NULL) = (status IN {live})),
    CONSTRAINT job_done CHECK (done_by IS NULL OR status = {succeeded}),
    CONSTRAINT job_ended CHECK ((finished_at IS NOT NULL) = (status IN {ended})),
    CONSTRAINT job_retained CHECK ((retire_at IS NOT NULL) = (finished_at IS NOT NULL) AND (stale_at IS NOT NULL) = (finished_at IS NOT NULL)),
    CONSTRAINT job_held_back CHECK (NOT blocked OR (status = {queued} AND limit_key IS NOT NULL)),
    CONSTRAINT job_was_queued CHECK (queued_at IS NOT NULL OR status NOT IN {queued_or_live}),
    CONSTRAINT job_asked_to_stop CHECK (status <> {cancelling} OR cancel_at IS NOT NULL),
    CONSTRAINT job_was_claimed CHECK (fence > 0 OR status NOT IN {claimed})
) STRICT, WITHOUT ROWID;
CREATE INDEX job_ready ON job (lane, rank, id) WHERE status = {queued} AND NOT blocked;
CREATE INDEX job_due ON job (due_at, id) WHERE status = {scheduled};
CREATE INDEX job_running ON job (worker, lane) WHERE worker IS NOT NULL;
CREATE INDEX job_retire ON job (retire_at, id) WHERE retire_at IS NOT NULL;
CREATE INDEX job_attention ON job (status, id) WHERE status IN {attention};
-- Jobs that may have more attempts than are kept.
CREATE INDEX job_long ON job (id) WHERE fence > 100;
-- Lists of what has ended, by its end and by its priority; written once, when a job ends. Their conditions mean the
-- same and are written in two ways, so that no planner confuses them; all their columns are in the index itself.
CREATE INDEX job_ended_at ON job (lane, status, retired, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX job_ended_priority ON job (lane, status, retired, priority, id) WHERE status IN {ended};
CREATE INDEX job_admitted ON job (limit_key) 
    WHERE limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid));
CREATE INDEX job_blocked ON job (limit_key, rank, id) WHERE blocked;
CREATE UNIQUE INDEX job_unique ON job (unique_key) WHERE unique_key IS NOT NULL AND status IN {active};

CREATE TABLE job_detail (
    id TEXT PRIMARY KEY,
    lane INTEGER NOT NULL,
    params TEXT NOT NULL,
    reference_type TEXT,
    reference_id TEXT,
    tags TEXT,
    idempotency_key TEXT,
    webhook_url TEXT,
    schedule TEXT,
    scheduled_for INTEGER,
    parent TEXT,
    rerun_of TEXT,
    traceparent TEXT,
    actor TEXT,
    -- Only of jobs that a schedule made, for lists of them in this order; it follows the job's own.
    schedule_priority INTEGER
) STRICT;
CREATE INDEX job_detail_lane ON job_detail (lane, id);
CREATE INDEX job_detail_reference ON job_detail (reference_type, reference_id, id) WHERE reference_type IS NOT NULL;
CREATE INDEX job_detail_schedule ON job_detail (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX job_detail_schedule_priority ON job_detail (schedule, schedule_priority, id) WHERE schedule IS NOT NULL;
CREATE INDEX job_detail_parent ON job_detail (parent, id) WHERE parent IS NOT NULL;

CREATE TABLE job_tag (
    tag TEXT NOT NULL,
    id TEXT NOT NULL,
    -- The job's own, for lists in this order.
    priority INTEGER NOT NULL,
    PRIMARY KEY (tag, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_tag_priority ON job_tag (tag, priority, id);
CREATE INDEX job_tag_job ON job_tag (id);

-- A key outlives its job, and never ends while the job is in flight.
CREATE TABLE idempotency (
    definition TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (definition, scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- Ended attempts, except those recorded in the job's own row (done_by).
CREATE TABLE attempt (
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    status INTEGER NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    peak_memory INTEGER,
    cpu_seconds REAL,
    worker TEXT,
    cause TEXT NOT NULL,
    result TEXT,
    error_type TEXT,
    error TEXT,
    traceback TEXT,
    fingerprint TEXT,
    PRIMARY KEY (job_id, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_fingerprint ON attempt (fingerprint, job_id) WHERE fingerprint IS NOT NULL;
-- The latest failures, for the list of errors; without successful attempts.
CREATE INDEX attempt_failed ON attempt (ended_at, fingerprint) WHERE fingerprint IS NOT NULL;

CREATE TABLE progress (
    job_id TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,
    percent REAL NOT NULL CHECK (percent BETWEEN 0 AND 100),
    message TEXT,
    phase TEXT,
    updated_at INTEGER NOT NULL
) STRICT;

-- One row for each attempt that began a phase. The completed one keeps the result, and the phase does not begin again
-- until a retry by hand deletes it; deleted results belong to their attempt only.
CREATE TABLE phase (
    job_id TEXT NOT NULL,
    name TEXT NOT NULL,
    fence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    progress REAL NOT NULL,
    message TEXT,
    result TEXT,
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    forgotten INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, name, fence),
    CHECK ((ended_at IS NOT NULL) = (status <> 'running')),
    CHECK (NOT forgotten OR result IS NULL)
) STRICT;
CREATE UNIQUE INDEX phase_completed ON phase (job_id, name) WHERE status = 'completed' AND NOT forgotten;

CREATE TABLE review (
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    note TEXT,
    data TEXT,
    result TEXT,
    asked_at INTEGER NOT NULL,
    decision TEXT CHECK (decision IN ('approved', 'rejected')),
    decided_by TEXT,
    decided_note TEXT,
    decided_at INTEGER,
    PRIMARY KEY (job_id, fence)
) STRICT;

CREATE TABLE log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 3),
    duration INTEGER,
    phase TEXT,
    message TEXT NOT NULL,
    details TEXT
) STRICT;
CREATE INDEX log_job ON log (job_id, seq);

-- Lanes that no live worker serves while another version of their definition is served: concurrency keys admit their jobs
-- after all others.
CREATE TABLE unserved_lane (lane INTEGER PRIMARY KEY) STRICT;

-- A rate limit as the instant at which its bucket is full again.
CREATE TABLE bucket (
    name TEXT PRIMARY KEY,
    full_at INTEGER NOT NULL,
    -- When it was written: a time ahead of the clock says that the clock was set back.
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX bucket_at ON bucket (at);

CREATE TABLE schedule (
    key TEXT PRIMARY KEY CHECK (length(key) BETWEEN 1 AND 200 AND instr(key, char(0)) = 0),
    body TEXT NOT NULL,
    expression TEXT NOT NULL,
    owner TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    next_run_at INTEGER,
    last_scheduled_at INTEGER,
    pause_reason TEXT,
    pause_by TEXT,
    pause_at INTEGER,
    pause_until INTEGER,
    revision INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedule_due ON schedule (next_run_at) WHERE enabled AND next_run_at IS NOT NULL;

CREATE TABLE tick (
    schedule TEXT NOT NULL,
    instant INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    passed_over INTEGER NOT NULL DEFAULT 0,
    job_id TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (schedule, instant)
) STRICT, WITHOUT ROWID;
CREATE INDEX tick_age ON tick (at);

-- Counts are tally + tally_delta: no transaction that creates or settles jobs waits for another's counter.
CREATE TABLE tally (
    lane INTEGER NOT NULL,
    status INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (lane, status)
) STRICT, WITHOUT ROWID;
CREATE TABLE tally_delta (
    lane INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    status INTEGER NOT NULL,
    n INTEGER NOT NULL,
    -- How long it took, for arrivals in running (in the queue) and from there (the attempt): the sum in microseconds,
    -- and one letter for each: A to W is a bucket, ~ an attempt that was lost.
    took INTEGER NOT NULL DEFAULT 0,
    lengths TEXT
) STRICT;
-- Arrivals in a status by span of time: grain is its length in minutes (1, 60; 0: ever), span its first minute.
-- Lane 0 is the sum of all, for figures by span.
CREATE TABLE tally_span (
    lane INTEGER NOT NULL,
    grain INTEGER NOT NULL CHECK (grain IN (0, 1, 60)),
    span INTEGER NOT NULL,
    status INTEGER NOT NULL,
    n INTEGER NOT NULL,
    took INTEGER NOT NULL,
    PRIMARY KEY (lane, grain, span, status)
) STRICT, WITHOUT ROWID;
-- The same by how long it took: bucket is the code of the letter. Lane 0 has only what was tried again or lost.
CREATE TABLE tally_length (
    lane INTEGER NOT NULL,
    grain INTEGER NOT NULL CHECK (grain IN (0, 1, 60)),
    span INTEGER NOT NULL,
    status INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (lane, grain, span, status, bucket)
) STRICT, WITHOUT ROWID;

-- One writer at a time: seq rises in the order of the commits, so a reader's cursor is the number of an event.
-- A row is one event, or a bundle: the same event of up to 1000 jobs, whose ids are in jobs (JSON); an id is nulled when
-- its event is removed. The number of an event is seq * 1024, and in a bundle the id's place is added, from 0 on.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    job_id TEXT,
    fence INTEGER,
    kind TEXT NOT NULL,
    subject TEXT,
    data TEXT,
    jobs TEXT,
    -- Of a job.deleted or job.pruned: when the bundles were written that may name the job (JSON).
    -- Of the latter only those of the attempts that were removed.
    times TEXT,
    CONSTRAINT event_bundled CHECK (jobs IS NULL OR (job_id IS NULL AND subject IS NULL AND data IS NULL))
) STRICT;
CREATE INDEX event_job ON event (job_id, seq) WHERE job_id IS NOT NULL;
-- How a job finds the bundles that name it: by created_at, and by started_at and ended_at of its attempts.
CREATE INDEX event_bundle ON event (at) WHERE jobs IS NOT NULL;
CREATE INDEX event_deleted ON event (job_id) WHERE times IS NOT NULL;
-- The index of retention; it is not changed by the ordinary life of jobs.
CREATE INDEX event_prunable ON event (at, seq) WHERE (job_id IS NULL AND jobs IS NULL) OR kind = 'job.deleted' OR kind = 'job.pruned';

-- Hook calls of definitions that have hooks; taking a row deletes it.
CREATE TABLE hook (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX hook_lane ON hook (lane, seq);
CREATE INDEX hook_age ON hook (at);

-- The newest event that retention has removed, by its number: readers that had not come so far must begin again.
CREATE TABLE feed_horizon (
    one INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    revision INTEGER NOT NULL DEFAULT 0,
    seq INTEGER NOT NULL
) STRICT;
INSERT INTO feed_horizon (seq) VALUES (0);

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    before TEXT,
    after TEXT,
    request_id TEXT
) STRICT;

INSERT INTO control (key) VALUES ('*');
