-- Statements of the admin port: definitions, reading, counting, settings, retention.
-- :now is the wall clock, :steady and :boot the clock of leases; {input} is the table of the rows handed in.

-- let leased: ended IS NULL AND boot = :boot AND (lease_until > :steady OR extended_until(id) > :steady)
-- let other: definition.body <> excluded.body OR definition.removed_at IS NOT NULL
-- let every_lane: (SELECT lane FROM definition UNION ALL SELECT 0) AS lanes

-- name: register_controls
-- Insert a row for each definition key that has none.
INSERT INTO control (key) SELECT key FROM {input} WHERE true ORDER BY key ON CONFLICT (key) DO NOTHING;

-- name: hold_controls
-- The limits of these definition keys and the overrides of operators.
SELECT control.key, overrides, concurrency, key_concurrency, rate_count, rate_period, rate_per_key
FROM {input} AS input CROSS JOIN control ON control.key = input.key ORDER BY control.key;

-- name: save_limits
-- Save the limits of these definition keys.
UPDATE control SET
    concurrency = input.concurrency, key_concurrency = input.key_concurrency, rate_count = input.rate_count,
    rate_period = input.rate_period, rate_per_key = input.rate_per_key, revision = control.revision + 1
FROM {input} AS input WHERE control.key = input.key;

-- name: register_definitions
-- Save definitions by key and version; the same again within an hour changes nothing.
INSERT INTO definition (key, version, body, source, stale_after, delete_after, hooked, registered_at, declared_at)
SELECT key, version, body, source, stale_after, delete_after, hooked, :now, :now FROM {input} WHERE true
ORDER BY key, version
ON CONFLICT (key, version) DO UPDATE SET
    body = excluded.body, source = excluded.source, hooked = excluded.hooked, declared_at = excluded.declared_at,
    removed_at = NULL,
    stale_after = CASE WHEN {other} THEN excluded.stale_after ELSE stale_after END,
    delete_after = CASE WHEN {other} THEN excluded.delete_after ELSE delete_after END,
    registered_at = CASE WHEN {other} THEN excluded.registered_at ELSE registered_at END
WHERE {other} OR declared_at < excluded.declared_at - 3600000000;

-- name: read_lanes
-- The lanes of these definition keys.
SELECT definition.key, version, lane FROM {input} AS input CROSS JOIN definition ON definition.key = input.key
WHERE removed_at IS NULL;

-- name: read_definitions
-- Definitions (all, or the versions of one) with their controls, and the current time.
SELECT definition.key, version, lane, body, enabled, pause_reason, pause_by, pause_at, pause_until, overrides,
    registered_at, :now, retired_at, retired_by, declared_at, removed_at IS NOT NULL
FROM definition JOIN control USING (key) WHERE :key IS NULL OR definition.key = :key ORDER BY definition.key, version;

-- name: definition_keys
-- The keys of all definitions.
SELECT DISTINCT key FROM definition WHERE removed_at IS NULL ORDER BY key;

-- name: served_lanes
-- The lanes of live workers; workers with the same lanes count once.
SELECT DISTINCT lanes FROM worker WHERE {leased};

-- name: read_counts
-- The number of jobs of each definition in each status: folded counts and deltas.
SELECT key, version, status, sum(n) FROM (
    SELECT lane, status, n FROM tally UNION ALL SELECT lane, status, n FROM tally_delta
) JOIN definition USING (lane)
GROUP BY key, version, status HAVING sum(n) <> 0 ORDER BY key, version, status;

-- name: fold
-- Add deltas to the counts, and arrivals in a status to their time spans; return how many were folded.
INSERT INTO tally (lane, status, n)
SELECT lane, status, sum(n) FROM (SELECT * FROM tally_delta ORDER BY rowid LIMIT :limit) WHERE true GROUP BY lane, status
ON CONFLICT (lane, status) DO UPDATE SET n = n + excluded.n;
INSERT INTO tally_span (lane, grain, span, status, n, took)
SELECT lane, column1, CASE column1 WHEN 0 THEN 0 ELSE minute - minute % column1 END AS first, status, sum(n), sum(took)
FROM (
    SELECT CASE twice.column1 WHEN 0 THEN 0 ELSE lane END AS lane, minute, status, n, took
    FROM (SELECT * FROM tally_delta ORDER BY rowid LIMIT :limit) CROSS JOIN (VALUES (0), (1)) AS twice WHERE n > 0
) CROSS JOIN (VALUES (0), (1), (60)) WHERE lane > 0 OR column1 > 0 GROUP BY lane, column1, first, status
ON CONFLICT (lane, grain, span, status) DO UPDATE SET n = n + excluded.n, took = took + excluded.took;
WITH RECURSIVE letter (code) AS (SELECT 65 UNION ALL SELECT CASE code WHEN 87 THEN 126 ELSE code + 1 END FROM letter WHERE code < 126),
arrived AS MATERIALIZED (
    SELECT lane, minute, status, group_concat(lengths, '') AS lengths
    FROM (SELECT * FROM tally_delta ORDER BY rowid LIMIT :limit) WHERE n > 0 AND lengths IS NOT NULL GROUP BY lane, minute, status
),
together AS (SELECT * FROM arrived UNION ALL SELECT 0, minute, status, lengths FROM arrived)
INSERT INTO tally_length (lane, grain, span, status, bucket, n)
SELECT lane, column1, CASE column1 WHEN 0 THEN 0 ELSE minute - minute % column1 END AS first, status, code,
    sum(length(lengths) - length(replace(lengths, char(code), '')))
FROM together CROSS JOIN letter CROSS JOIN (VALUES (0), (1), (60))
WHERE instr(lengths, char(code)) > 0 AND (lane > 0 OR (column1 > 0 AND (code = 126 OR status = {scheduled})))
GROUP BY lane, column1, first, status, code
ON CONFLICT (lane, grain, span, status, bucket) DO UPDATE SET n = n + excluded.n;
DELETE FROM tally_delta WHERE rowid IN (SELECT rowid FROM tally_delta ORDER BY rowid LIMIT :limit);
SELECT changes();

-- name: read_attempts
-- The ended attempts at a job, in their order.
SELECT job_id, fence, number, worker, status, cause, started_at, ended_at, result, error_type, error,
    traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
FROM attempt WHERE job_id = :id
UNION ALL
SELECT id, fence, attempt, done_by, status, 'returned', started_at, finished_at, 'null', NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL
FROM job WHERE id = :id AND done_by IS NOT NULL ORDER BY fence;

-- name: read_logs
-- Log lines of a job, from a level on.
SELECT seq, fence, at, level, phase, message, details, duration FROM log
WHERE job_id = :id AND seq > :after AND level >= :level
    AND (:phase IS NULL OR phase = :phase) AND (:fence IS NULL OR fence = :fence)
ORDER BY seq LIMIT :limit;

-- name: read_reviews
-- The reviews of a job with their decisions.
SELECT job_id, fence, note, data, asked_at, decision, decided_by, decided_note, decided_at, result
FROM review WHERE job_id = :id ORDER BY fence;

-- name: read_workers
-- All stored workers, in the order of their start.
SELECT id, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, {leased}, ended, duties,
    :now - duties_at, CASE WHEN boot = :boot THEN lease_until - :steady + :now END, figures
FROM worker ORDER BY started_at, id;

-- name: read_settings
-- The settings, without internal ones.
SELECT name, value, revision, updated_at, updated_by FROM setting WHERE name NOT IN ('controls', 'ageing') AND name NOT LIKE 'doorbell:%' ORDER BY name;

-- name: find_setting
-- One setting.
SELECT name, value, revision, updated_at, updated_by FROM setting WHERE name = :name;

-- name: save_setting
-- Save a setting if it has the expected revision: null is any, 0 is none yet.
INSERT INTO setting (name, value, updated_at, updated_by)
SELECT :name, :value, :now, :by
WHERE coalesce(:revision, 0) = 0 OR EXISTS (SELECT 1 FROM setting WHERE name = :name)
ON CONFLICT (name) DO UPDATE SET
    value = excluded.value, revision = revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
WHERE :revision IS NULL OR setting.revision = :revision
RETURNING name, value, revision, updated_at, updated_by;

-- name: save_ageing
-- Save the waiting time for one step of priority, in microseconds; every change of a rank reads it.
INSERT INTO setting (name, value, updated_at, updated_by) VALUES ('ageing', :interval, :now, :by)
ON CONFLICT (name) DO UPDATE SET
    value = excluded.value, revision = revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
WHERE value <> excluded.value;

-- name: hold_retired
-- Ended jobs whose next step of retention is due, the longest overdue first.
SELECT id, retired FROM job WHERE retire_at <= :now ORDER BY retire_at, id LIMIT :limit;

-- name: announce_stale
-- Write the events of locked jobs that became stale; the next step deletes them.
UPDATE job SET retired = 1, updated_at = :now,
    retire_at = stale_at + (SELECT delete_after FROM definition WHERE definition.lane = job.lane)
WHERE id IN (SELECT id FROM {input});
INSERT INTO event (at, kind, job_id) SELECT :now, 'job.stale', id FROM {input} ORDER BY id;
INSERT INTO hook (lane, job_id, fence, kind, at)
SELECT job.lane, job.id, fence, 'job.stale', :now
FROM {input} AS input CROSS JOIN job USING (id) JOIN definition ON definition.lane = job.lane AND hooked ORDER BY job.id;

-- name: drop_expired_keys
-- Delete expired idempotency keys, except those of active jobs.
DELETE FROM idempotency WHERE (definition, scope, key) IN (
    SELECT definition, scope, key FROM idempotency WHERE expires_at <= :now
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id AND job.status IN {active})
    ORDER BY expires_at LIMIT :limit
)
RETURNING 1;

-- name: drop_full_buckets
-- Delete rate buckets that are full again: they equal missing ones.
DELETE FROM bucket WHERE name IN (SELECT name FROM bucket WHERE full_at <= :now LIMIT :limit) RETURNING 1;

-- name: drop_ended_workers
-- Delete workers that ended long ago and hold no jobs.
DELETE FROM worker WHERE id IN (
    SELECT id FROM worker WHERE ended IS NOT NULL AND heartbeat_at < :now - :age
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id)
    LIMIT :limit
)
RETURNING 1;

-- name: drop_old_ticks
-- Delete old ticks; the newest of each schedule stays.
DELETE FROM tick WHERE (schedule, instant) IN (
    SELECT schedule, instant FROM tick WHERE at < :now - :age
        AND instant < (SELECT max(newest.instant) FROM tick AS newest WHERE newest.schedule = tick.schedule)
    ORDER BY at LIMIT :limit
)
RETURNING 1;

-- name: drop_old_spans
-- Delete counts by minute after the age, and by hour after thirteen times the age.
DELETE FROM tally_span WHERE (lane, grain, span, status) IN (
    SELECT tally_span.lane, grain, span, status FROM {every_lane} CROSS JOIN (VALUES (1, 1), (60, 13)) AS grains
    CROSS JOIN tally_span ON tally_span.lane = lanes.lane AND grain = grains.column1
        AND span < (:now - :age * grains.column2) / 60000000
    LIMIT :limit
)
RETURNING 1;

-- name: drop_old_lengths
-- Do the same with the counts by duration.
DELETE FROM tally_length WHERE (lane, grain, span, status, bucket) IN (
    SELECT tally_length.lane, grain, span, status, bucket FROM {every_lane} CROSS JOIN (VALUES (1, 1), (60, 13)) AS grains
    CROSS JOIN tally_length ON tally_length.lane = lanes.lane AND grain = grains.column1
        AND span < (:now - :age * grains.column2) / 60000000
    LIMIT :limit
)
RETURNING 1;
