-- Statements of the admin port that say why jobs wait.
-- {now} is the instant given by the caller, or else the database's own clock.

-- let admitted: limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid))
-- let told_now: CASE WHEN job.stale_at <= {now} THEN {stale} ELSE job.status END

-- name: why_job
-- A job, its limits, the current time, and the pauses of its definition and of the whole system.
SELECT definition.key, definition.version, job.lane, {told_now}, job.status, job.due_at, job.rank, job.blocked,
    job.rate_paid, job.limit_key, job.worker::text, job.started_at, job.finished_at, job.cancel_at, own.concurrency,
    own.key_concurrency, own.rate_count, own.rate_period, own.rate_per_key, {now},
    own.pause_reason, own.pause_by, own.pause_at, own.pause_until,
    system.pause_reason, system.pause_by, system.pause_at, system.pause_until, own.retired_by, own.retired_at
FROM {schema}.job JOIN {schema}.definition ON definition.lane = job.lane
JOIN {schema}.control AS own ON own.key = definition.key
JOIN {schema}.control AS system ON system.key = '*'
WHERE job.id = %(id)s::uuid;

-- name: system_pause
-- The pause of the whole system, and the current time.
SELECT pause_reason, pause_by, pause_at, pause_until, {now} FROM {schema}.control WHERE key = '*';

-- name: key_lanes
-- The versions of a definition and their lanes.
SELECT version, lane FROM {schema}.definition WHERE key = %(key)s ORDER BY version;

-- name: all_lanes
-- Every definition's lane.
SELECT key, version, lane FROM {schema}.definition;

-- name: running_of
-- Jobs of a definition that run now, the oldest first.
WITH running AS MATERIALIZED (SELECT id, lane FROM {schema}.job WHERE worker IS NOT NULL)
SELECT running.id::text FROM running JOIN {schema}.definition ON definition.lane = running.lane
WHERE definition.key = %(key)s ORDER BY running.id LIMIT %(limit)s;

-- name: admitted_of
-- Jobs that a concurrency key has let through, the oldest first.
WITH admitted AS MATERIALIZED (
    SELECT id FROM {schema}.job
    WHERE limit_key = %(limit_key)s AND {admitted}
)
SELECT id::text FROM admitted ORDER BY id LIMIT %(limit)s;

-- name: bucket_of
-- When a rate's bucket is full again.
SELECT full_at FROM {schema}.bucket WHERE name = %(name)s;

-- name: count_ahead
-- The number of ready jobs of these lanes before a position in the queue, up to a limit.
SELECT count(*) FROM (
    SELECT FROM unnest(%(lanes)s::integer[]) AS served (lane) CROSS JOIN LATERAL (
        SELECT FROM {schema}.job WHERE job.lane = served.lane AND status = {queued} AND NOT blocked
            AND (rank, id) < (%(rank)s::bigint, %(id)s::uuid) LIMIT %(limit)s::bigint
    ) AS ready LIMIT %(limit)s::bigint
) AS counted;
