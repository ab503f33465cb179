-- Statements of the admin port: definitions, reading, counting, settings, retention.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let leased: worker.ended IS NULL AND worker.lease_until > {now}
-- let other: known.body <> excluded.body OR known.removed_at IS NOT NULL
-- let every_lane: (SELECT lane FROM {schema}.definition UNION ALL SELECT 0) AS lanes

-- name: register_controls
-- Insert a row for each definition key that has none.
INSERT INTO {schema}.control (key)
SELECT key FROM unnest(%(key)s::text[]) AS input (key) ORDER BY key ON CONFLICT (key) DO NOTHING;

-- name: hold_controls
-- Lock the limits of these definition keys and the overrides of operators.
SELECT key, overrides, concurrency, key_concurrency, rate_count, rate_period, rate_per_key FROM {schema}.control
WHERE key = ANY(%(key)s::text[]) ORDER BY key FOR UPDATE;

-- name: save_limits
-- Save the limits of these definition keys.
UPDATE {schema}.control SET
    concurrency = input.concurrency, key_concurrency = input.key_concurrency, rate_count = input.rate_count,
    rate_period = input.rate_period, rate_per_key = input.rate_per_key, revision = control.revision + 1
FROM unnest(
    %(key)s::text[], %(concurrency)s::integer[], %(key_concurrency)s::integer[], %(rate_count)s::integer[],
    %(rate_period)s::bigint[], %(rate_per_key)s::boolean[]
) AS input (key, concurrency, key_concurrency, rate_count, rate_period, rate_per_key)
WHERE control.key = input.key;

-- name: register_definitions
-- Save definitions by key and version; the same again within an hour changes nothing.
INSERT INTO {schema}.definition AS known (
    key, version, body, source, stale_after, delete_after, hooked, registered_at, declared_at
)
SELECT key, version, body, source, stale_after, delete_after, hooked, {now}, {now} FROM unnest(
    %(key)s::text[], %(version)s::integer[], %(body)s::text[], %(source)s::text[], %(stale_after)s::bigint[],
    %(delete_after)s::bigint[], %(hooked)s::boolean[]
) AS input (key, version, body, source, stale_after, delete_after, hooked) ORDER BY key, version
ON CONFLICT (key, version) DO UPDATE SET
    body = excluded.body, source = excluded.source, hooked = excluded.hooked, declared_at = excluded.declared_at,
    removed_at = NULL,
    stale_after = CASE WHEN {other} THEN excluded.stale_after ELSE known.stale_after END,
    delete_after = CASE WHEN {other} THEN excluded.delete_after ELSE known.delete_after END,
    registered_at = CASE WHEN {other} THEN excluded.registered_at ELSE known.registered_at END
WHERE {other} OR known.declared_at < excluded.declared_at - 3600000000;

-- name: read_lanes
-- The lanes of these definition keys.
SELECT key, version, lane FROM {schema}.definition WHERE key = ANY(%(key)s::text[]) AND removed_at IS NULL;

-- name: read_definitions
-- Definitions (all, or the versions of one) with their controls, and the current time.
SELECT definition.key, version, lane, body, enabled, pause_reason, pause_by, pause_at, pause_until, overrides,
    registered_at, {now}, retired_at, retired_by, declared_at, removed_at IS NOT NULL
FROM {schema}.definition JOIN {schema}.control USING (key)
WHERE %(key)s::text IS NULL OR definition.key = %(key)s::text ORDER BY definition.key, version;

-- name: definition_keys
-- The keys of all definitions.
SELECT DISTINCT key FROM {schema}.definition WHERE removed_at IS NULL ORDER BY key;

-- name: served_lanes
-- The lanes of live workers; workers with the same lanes count once.
SELECT DISTINCT lanes FROM {schema}.worker WHERE {leased};

-- name: read_counts
-- The number of jobs of each definition in each status: folded counts and deltas.
SELECT key, version, status, sum(n)::bigint FROM (
    SELECT lane, status, n FROM {schema}.tally UNION ALL SELECT lane, status, n FROM {schema}.tally_delta
) AS counted JOIN {schema}.definition USING (lane)
GROUP BY key, version, status HAVING sum(n) <> 0 ORDER BY key, version, status;

-- name: fold
-- Add deltas to the counts, and arrivals in a status to their time spans; return how many were folded.
WITH folded AS MATERIALIZED (
    DELETE FROM {schema}.tally_delta WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {schema}.tally_delta LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING lane, minute, status, n, took, lengths
),
counted AS (
    INSERT INTO {schema}.tally (lane, status, n)
    SELECT lane, status, sum(n) FROM folded GROUP BY lane, status ORDER BY lane, status
    ON CONFLICT (lane, status) DO UPDATE SET n = tally.n + excluded.n
),
arrived AS MATERIALIZED (
    SELECT lane, minute, status, sum(n) AS n, sum(took) AS took, string_agg(lengths, '') AS lengths
    FROM folded WHERE n > 0 GROUP BY lane, minute, status
),
together AS (SELECT * FROM arrived UNION ALL SELECT 0, minute, status, n, took, lengths FROM arrived),
timed AS (
    INSERT INTO {schema}.tally_span (lane, grain, span, status, n, took)
    SELECT lane, grain, CASE grain WHEN 0 THEN 0 ELSE minute - minute %% grain END AS span, status, sum(n), sum(took)
    FROM together CROSS JOIN (VALUES (0), (1), (60)) AS grains (grain) WHERE lane > 0 OR grain > 0
    GROUP BY lane, grain, span, status ORDER BY lane, grain, span, status
    ON CONFLICT (lane, grain, span, status) DO UPDATE SET n = tally_span.n + excluded.n, took = tally_span.took + excluded.took
),
measured AS (
    INSERT INTO {schema}.tally_length (lane, grain, span, status, bucket, n)
    SELECT lane, grain, CASE grain WHEN 0 THEN 0 ELSE minute - minute %% grain END AS span, status, code,
        sum(octet_length(lengths) - octet_length(replace(lengths, chr(code), '')))
    FROM together CROSS JOIN (SELECT generate_series(65, 87) UNION ALL SELECT 126) AS letters (code)
    CROSS JOIN (VALUES (0), (1), (60)) AS grains (grain)
    WHERE position(chr(code) IN lengths) > 0 AND (lane > 0 OR (grain > 0 AND (code = 126 OR status = {scheduled})))
    GROUP BY lane, grain, span, status, code ORDER BY lane, grain, span, status, code
    ON CONFLICT (lane, grain, span, status, bucket) DO UPDATE SET n = tally_length.n + excluded.n
)
SELECT count(*) FROM folded;

-- name: read_attempts
-- The ended attempts at a job, in their order.
SELECT job_id::text, fence, number, worker::text, status, cause, started_at, ended_at, result, error_type, error,
    traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
FROM {schema}.attempt WHERE job_id = %(id)s::uuid
UNION ALL
SELECT id::text, fence, attempt, done_by::text, status, 'returned', started_at, finished_at, 'null', NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL
FROM {schema}.job WHERE id = %(id)s::uuid AND done_by IS NOT NULL ORDER BY fence;

-- name: read_logs
-- Log lines of a job, from a level on.
SELECT seq, fence, at, level, phase, message, details, duration FROM {schema}.log
WHERE job_id = %(id)s::uuid AND seq > %(after)s::bigint AND level >= %(level)s::smallint
    AND (%(phase)s::text IS NULL OR phase = %(phase)s::text) AND (%(fence)s::integer IS NULL OR fence = %(fence)s::integer)
ORDER BY seq LIMIT %(limit)s;

-- name: read_reviews
-- The reviews of a job with their decisions.
SELECT job_id::text, fence, note, data, asked_at, decision, decided_by, decided_note, decided_at, result
FROM {schema}.review WHERE job_id = %(id)s::uuid ORDER BY fence;

-- name: read_workers
-- All stored workers, in the order of their start.
SELECT id::text, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, {leased}, ended, duties,
    {now} - duties_at, lease_until, figures
FROM {schema}.worker ORDER BY started_at, id;

-- name: read_settings
-- The settings, without internal ones.
SELECT name, value, revision, updated_at, updated_by FROM {schema}.setting WHERE name NOT IN ('controls', 'ageing') AND name NOT LIKE 'doorbell:%%' ORDER BY name;

-- name: find_setting
-- One setting.
SELECT name, value, revision, updated_at, updated_by FROM {schema}.setting WHERE name = %(name)s;

-- name: save_setting
-- Save a setting if it has the expected revision: null is any, 0 is none yet.
INSERT INTO {schema}.setting AS known (name, value, updated_at, updated_by)
SELECT %(name)s, %(value)s, {now}, %(by)s
WHERE coalesce(%(revision)s::integer, 0) = 0 OR EXISTS (SELECT FROM {schema}.setting WHERE name = %(name)s)
ON CONFLICT (name) DO UPDATE SET
    value = excluded.value, revision = known.revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
WHERE %(revision)s::integer IS NULL OR known.revision = %(revision)s::integer
RETURNING name, value, revision, updated_at, updated_by;

-- name: save_ageing
-- Save the waiting time for one step of priority, in microseconds; every change of a rank reads it.
INSERT INTO {schema}.setting AS known (name, value, updated_at, updated_by) VALUES ('ageing', %(interval)s, {now}, %(by)s)
ON CONFLICT (name) DO UPDATE SET
    value = excluded.value, revision = known.revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by
WHERE known.value <> excluded.value;

-- name: hold_retired
-- Lock ended jobs whose next step of retention is due, the longest overdue first.
SELECT id::text, retired FROM {schema}.job WHERE retire_at <= (SELECT {now})
ORDER BY retire_at, job.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: announce_stale
-- Write the events of locked jobs that became stale; the next step deletes them.
WITH clock AS (SELECT {now} AS now),
stale AS (
    UPDATE {schema}.job SET retired = true, retire_at = job.stale_at + definition.delete_after, updated_at = now
    FROM {schema}.definition CROSS JOIN clock WHERE job.id = ANY(%(id)s::uuid[]) AND definition.lane = job.lane
    RETURNING job.id, job.lane, job.fence, job.updated_at, definition.hooked
),
called AS (
    INSERT INTO {schema}.hook (lane, job_id, fence, kind, at)
    SELECT lane, id, fence, 'job.stale', updated_at FROM stale WHERE hooked ORDER BY id
)
INSERT INTO {schema}.event (at, kind, job_id) SELECT updated_at, 'job.stale', id FROM stale ORDER BY id;

-- name: drop_expired_keys
-- Delete expired idempotency keys, except those of active jobs.
WITH chosen AS MATERIALIZED (
    SELECT definition, scope, key FROM {schema}.idempotency WHERE expires_at <= (SELECT {now})
        AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = idempotency.job_id AND job.status IN {active})
    ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.idempotency USING chosen
WHERE (idempotency.definition, idempotency.scope, idempotency.key) = (chosen.definition, chosen.scope, chosen.key)
RETURNING 1;

-- name: drop_full_buckets
-- Delete rate buckets that are full again: they equal missing ones.
WITH chosen AS MATERIALIZED (
    SELECT name FROM {schema}.bucket WHERE full_at <= {now} LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.bucket USING chosen WHERE bucket.name = chosen.name
RETURNING 1;

-- name: drop_ended_workers
-- Delete workers that ended long ago and hold no jobs.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}.worker WHERE ended IS NOT NULL AND heartbeat_at < {now} - %(age)s::bigint
        AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.worker = worker.id)
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.worker USING chosen WHERE worker.id = chosen.id
RETURNING 1;

-- name: drop_old_ticks
-- Delete old ticks; the newest of each schedule stays.
WITH chosen AS MATERIALIZED (
    SELECT schedule, instant FROM {schema}.tick WHERE at < (SELECT {now}) - %(age)s::bigint
        AND instant < (SELECT max(newest.instant) FROM {schema}.tick AS newest WHERE newest.schedule = tick.schedule)
    ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.tick USING chosen WHERE tick.schedule = chosen.schedule AND tick.instant = chosen.instant
RETURNING 1;

-- name: drop_old_spans
-- Delete counts by minute after the age, and by hour after thirteen times the age.
WITH chosen AS MATERIALIZED (
    SELECT old.* FROM {every_lane} CROSS JOIN (VALUES (1, 1), (60, 13)) AS grains (grain, times) CROSS JOIN LATERAL (
        SELECT lane, grain, span, status FROM {schema}.tally_span
        WHERE tally_span.lane = lanes.lane AND tally_span.grain = grains.grain
            AND span < ({now} - %(age)s::bigint * times) / 60000000
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS old
    LIMIT %(limit)s
)
DELETE FROM {schema}.tally_span USING chosen
WHERE tally_span.lane = chosen.lane AND tally_span.grain = chosen.grain AND tally_span.span = chosen.span
    AND tally_span.status = chosen.status
RETURNING 1;

-- name: drop_old_lengths
-- Do the same with the counts by duration.
WITH chosen AS MATERIALIZED (
    SELECT old.* FROM {every_lane} CROSS JOIN (VALUES (1, 1), (60, 13)) AS grains (grain, times) CROSS JOIN LATERAL (
        SELECT lane, grain, span, status, bucket FROM {schema}.tally_length
        WHERE tally_length.lane = lanes.lane AND tally_length.grain = grains.grain
            AND span < ({now} - %(age)s::bigint * times) / 60000000
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS old
    LIMIT %(limit)s
)
DELETE FROM {schema}.tally_length USING chosen
WHERE tally_length.lane = chosen.lane AND tally_length.grain = chosen.grain AND tally_length.span = chosen.span
    AND tally_length.status = chosen.status AND tally_length.bucket = chosen.bucket
RETURNING 1;
