-- Statements of the schedules port: schedules and their ticks.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let columns: key, body, expression, owner, enabled, next_run_at, last_scheduled_at, pause_reason, pause_by, pause_at, pause_until, revision, created_at, updated_at
-- let ticking: enabled AND next_run_at IS NOT NULL AND (pause_at IS NULL OR pause_until <= {now})

-- name: hold_schedules
-- Lock schedules.
SELECT {columns} FROM {schema}.schedule WHERE key = ANY(%(key)s::text[]) ORDER BY key FOR UPDATE;

-- name: read_schedule
-- A schedule.
SELECT {columns} FROM {schema}.schedule WHERE key = %(key)s;

-- name: list_schedules
-- Every schedule.
SELECT {columns} FROM {schema}.schedule ORDER BY key;

-- name: due_schedules
-- Schedules whose next tick has come, the earliest first.
SELECT {columns} FROM {schema}.schedule WHERE {ticking} AND next_run_at <= {now}
ORDER BY next_run_at, key LIMIT %(limit)s;

-- name: next_tick
-- When the next schedule ticks, or a pause ends that holds one back; those that rest (revision and key) do not count.
SELECT min(greatest(next_run_at, pause_until)) FROM {schema}.schedule
WHERE enabled AND next_run_at IS NOT NULL AND (pause_at IS NULL OR pause_until IS NOT NULL)
    AND revision || ' ' || key <> ALL(%(resting)s::text[]);

-- name: create_schedule
-- A schedule that was not there.
INSERT INTO {schema}.schedule (key, body, expression, owner, enabled, next_run_at, created_at, updated_at)
VALUES (%(key)s, %(body)s, %(expression)s, %(owner)s, %(enabled)s, %(next_run_at)s, {now}, {now})
ON CONFLICT (key) DO NOTHING RETURNING {columns};

-- name: replace_schedule
-- Replace a locked schedule; its pause and its mark stay.
UPDATE {schema}.schedule SET body = %(body)s, expression = %(expression)s, owner = %(owner)s, enabled = %(enabled)s,
    next_run_at = %(next_run_at)s, revision = revision + 1, updated_at = {now}
WHERE key = %(key)s RETURNING {columns};

-- name: pause_schedule
-- A held schedule is paused or resumed.
UPDATE {schema}.schedule SET pause_reason = %(pause_reason)s, pause_by = %(pause_by)s, pause_at = %(pause_at)s,
    pause_until = %(pause_until)s, revision = revision + 1, updated_at = {now}
WHERE key = %(key)s;

-- name: remove_schedule
-- Delete a schedule; its jobs and the record of its ticks stay.
DELETE FROM {schema}.schedule WHERE key = %(key)s RETURNING body;

-- name: unfinished_jobs
-- Those of some schedules of whose newest jobs one has not finished; `waiting` leaves out those that run. Under a
-- policy that looks, one that has not finished is among the newest: it kept later ones from being made.
SELECT key FROM unnest(%(key)s::text[], %(waiting)s::boolean[]) AS input (key, waiting) WHERE EXISTS (
    SELECT FROM (
        SELECT id FROM {schema}.job_detail WHERE schedule = input.key ORDER BY id DESC LIMIT 1000
    ) AS recent JOIN {schema}.job ON job.id = recent.id
    WHERE job.status IN {active} AND NOT (input.waiting AND job.status IN {live})
);

-- name: save_ticks
-- Instants of schedules are dealt with, once for all.
INSERT INTO {schema}.tick (schedule, instant, verdict, passed_over, job_id, at)
SELECT key, instant, verdict, passed_over, job_id, {now}
FROM unnest(%(key)s::text[], %(instant)s::bigint[], %(verdict)s::text[], %(passed_over)s::bigint[], %(job_id)s::uuid[])
    AS input (key, instant, verdict, passed_over, job_id)
ON CONFLICT DO NOTHING RETURNING schedule;

-- name: name_tick_job
-- A tick was answered by another job than the one it brought.
UPDATE {schema}.tick SET job_id = %(job_id)s::uuid WHERE schedule = %(key)s AND instant = %(instant)s;

-- name: advance_schedules
-- Advance locked schedules to their next tick.
UPDATE {schema}.schedule SET last_scheduled_at = input.instant, next_run_at = input.next_run_at,
    enabled = input.enabled
FROM unnest(%(key)s::text[], %(instant)s::bigint[], %(next_run_at)s::bigint[], %(enabled)s::boolean[])
    AS input (key, instant, next_run_at, enabled)
WHERE schedule.key = input.key;

-- name: read_ticks
-- The newest ticks of a schedule.
SELECT instant, verdict, passed_over, job_id::text, at FROM {schema}.tick WHERE schedule = %(key)s
ORDER BY instant DESC LIMIT %(limit)s;
