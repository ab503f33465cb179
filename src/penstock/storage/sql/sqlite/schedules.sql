-- Statements of the schedules port: schedules and their ticks.
-- :now is the wall clock; other {names} are let here.

-- let columns: key, body, expression, owner, enabled, next_run_at, last_scheduled_at, pause_reason, pause_by, pause_at, pause_until, revision, created_at, updated_at
-- let ticking: enabled AND next_run_at IS NOT NULL AND (pause_at IS NULL OR pause_until <= :now)

-- name: hold_schedules
-- Schedules; the transaction is the only writer.
SELECT {columns} FROM schedule WHERE key IN (SELECT key FROM {input}) ORDER BY key;

-- name: read_schedule
-- A schedule.
SELECT {columns} FROM schedule WHERE key = :key;

-- name: list_schedules
-- Every schedule.
SELECT {columns} FROM schedule ORDER BY key;

-- name: due_schedules
-- Schedules whose next tick has come, the earliest first.
SELECT {columns} FROM schedule WHERE {ticking} AND next_run_at <= :now
ORDER BY next_run_at, key LIMIT :limit;

-- name: next_tick
-- When the next schedule ticks, or a pause ends that holds one back; those that rest (revision and key) do not count.
SELECT min(max(next_run_at, coalesce(pause_until, next_run_at))) FROM schedule
WHERE enabled AND next_run_at IS NOT NULL AND (pause_at IS NULL OR pause_until IS NOT NULL)
    AND revision || ' ' || key NOT IN (SELECT value FROM json_each(:resting));

-- name: create_schedule
-- A schedule that was not there.
INSERT INTO schedule (key, body, expression, owner, enabled, next_run_at, created_at, updated_at)
VALUES (:key, :body, :expression, :owner, :enabled, :next_run_at, :now, :now)
ON CONFLICT (key) DO NOTHING RETURNING {columns};

-- name: replace_schedule
-- Replace a locked schedule; its pause and its mark stay.
UPDATE schedule SET body = :body, expression = :expression, owner = :owner, enabled = :enabled,
    next_run_at = :next_run_at, revision = revision + 1, updated_at = :now
WHERE key = :key RETURNING {columns};

-- name: pause_schedule
-- A held schedule is paused or resumed.
UPDATE schedule SET pause_reason = :pause_reason, pause_by = :pause_by, pause_at = :pause_at,
    pause_until = :pause_until, revision = revision + 1, updated_at = :now
WHERE key = :key;

-- name: remove_schedule
-- Delete a schedule; its jobs and the record of its ticks stay.
DELETE FROM schedule WHERE key = :key RETURNING body;

-- name: unfinished_jobs
-- Those of some schedules of whose newest jobs one has not finished; `waiting` leaves out those that run. Under a
-- policy that looks, one that has not finished is among the newest: it kept later ones from being made.
SELECT key FROM {input} AS input WHERE EXISTS (
    SELECT 1 FROM (
        SELECT id FROM job_detail WHERE schedule = input.key ORDER BY id DESC LIMIT 1000
    ) AS recent JOIN job ON job.id = recent.id
    WHERE job.status IN {active} AND NOT (input.waiting AND job.status IN {live})
);

-- name: save_ticks
-- Instants of schedules are dealt with, once for all.
INSERT INTO tick (schedule, instant, verdict, passed_over, job_id, at)
SELECT key, instant, verdict, passed_over, job_id, :now FROM {input} WHERE true
ON CONFLICT DO NOTHING RETURNING schedule;

-- name: name_tick_job
-- A tick was answered by another job than the one it brought.
UPDATE tick SET job_id = :job_id WHERE schedule = :key AND instant = :instant;

-- name: advance_schedules
-- Advance locked schedules to their next tick.
UPDATE schedule SET last_scheduled_at = input.instant, next_run_at = input.next_run_at, enabled = input.enabled
FROM {input} AS input WHERE schedule.key = input.key;

-- name: read_ticks
-- The newest ticks of a schedule.
SELECT instant, verdict, passed_over, job_id, at FROM tick WHERE schedule = :key
ORDER BY instant DESC LIMIT :limit;
