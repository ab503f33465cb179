-- Statements of the control port: what operators do to jobs and definitions.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let ageing: coalesce((SELECT value::bigint FROM {schema}.setting WHERE name = 'ageing'), 600000000)
-- let told_now: CASE WHEN job.stale_at <= {now} THEN {stale} ELSE job.status END
-- let outcome: CASE status WHEN {succeeded} THEN 'succeeded' WHEN {failed} THEN 'failed' ELSE 'cancelled' END
-- let bundled: EXISTS (SELECT FROM {schema}.event WHERE event.at = told_at.at AND jobs IS NOT NULL)

-- name: filter_job_id
-- Jobs with one of these ids.
job.id = ANY(%(filter_job_id)s::uuid[])

-- name: filter_status
-- Jobs with one of these statuses now; stale is derived.
job.status = ANY(%(filter_stored)s::smallint[]) AND {told_now} = ANY(%(filter_status)s::smallint[])

-- name: filter_attention
-- The predicate of the index of jobs that need attention.
job.status IN {attention}

-- name: filter_live
-- The predicate of the index of live jobs.
job.worker IS NOT NULL

-- name: filter_not_due
-- The predicate of the index of scheduled jobs.
job.status = {scheduled}

-- name: filter_definition_key
-- Jobs of any version of a definition.
detail.lane IN (SELECT lane FROM {schema}.definition WHERE key = %(filter_definition_key)s)

-- name: filter_reference_type
-- Jobs that refer to a thing of this type.
detail.reference_type = %(filter_reference_type)s

-- name: filter_reference_id
-- Jobs that refer to the thing with this id.
detail.reference_id = %(filter_reference_id)s

-- name: filter_tag
-- Jobs with this tag.
job.id IN (SELECT id FROM {schema}.job_tag WHERE tag = %(filter_tag)s)

-- name: filter_schedule_id
-- Jobs that this schedule made.
detail.schedule = %(filter_schedule_id)s

-- name: filter_created_from
-- Jobs created at this instant or later.
job.created_at >= %(filter_created_from)s

-- name: filter_created_to
-- Jobs created before this instant.
job.created_at < %(filter_created_to)s

-- name: filter_fingerprint
-- Jobs with an attempt that failed this way.
job.id IN (SELECT job_id FROM {schema}.attempt WHERE fingerprint = %(filter_fingerprint)s)

-- name: filter_parent_id
-- Jobs that this job created.
detail.parent = %(filter_parent_id)s::uuid

-- name: select_jobs
-- Ids of jobs that match a filter, in order of id.
SELECT job.id::text FROM {schema}.job JOIN {schema}.job_detail AS detail ON detail.id = job.id
WHERE job.id > %(after)s::uuid AND {filters} ORDER BY job.id LIMIT %(limit)s;

-- name: hold_jobs
-- Lock jobs in order of id, and return their current status and what a change needs.
SELECT job.id::text, {told_now}, job.status, job.fence, job.priority, job.due_at, job.generation,
    job.limit_key, job.unique_key, definition.key, {now}, job.lane, definition.hooked
FROM {schema}.job JOIN {schema}.definition ON definition.lane = job.lane
WHERE job.id = ANY(%(id)s::uuid[]) ORDER BY job.id FOR UPDATE OF job;

-- name: move_jobs
-- Change the status of locked jobs, each from its known status; renewed ones begin another generation. An attempt that
-- was recorded only in the job's row gets a separate row.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(%(id)s::uuid[], %(before)s::smallint[], %(status)s::smallint[], %(due)s::bigint[], %(renewed)s::boolean[])
        AS input (id, before, status, due, renewed)
),
kept AS (
    INSERT INTO {schema}.attempt (job_id, fence, number, status, cause, worker, started_at, ended_at, result)
    SELECT id, fence, attempt, job.status, 'returned', done_by, started_at, finished_at, 'null'
    FROM input JOIN {schema}.job USING (id) WHERE done_by IS NOT NULL AND job.status = input.before
),
moved AS (
    UPDATE {schema}.job SET
        done_by = NULL, status = input.status, updated_at = now, rate_paid = false,
        blocked = input.status = {queued} AND limit_key IS NOT NULL,
        due_at = coalesce(input.due, due_at),
        rank = coalesce(input.due - priority * {ageing}, rank),
        queued_at = CASE WHEN input.status = {queued} AND input.before <> {queued} THEN now ELSE queued_at END,
        cancel_at = CASE WHEN input.status IN ({cancelling}, {cancelled}) THEN now WHEN NOT input.renewed THEN cancel_at END,
        finished_at = CASE WHEN input.status IN {ended} THEN now END,
        stale_at = CASE WHEN input.status IN {ended} THEN now + definition.stale_after END,
        retire_at = CASE WHEN input.status IN {ended} THEN now + definition.stale_after END,
        retired = retired AND NOT input.renewed,
        generation = generation + CASE WHEN input.renewed THEN 1 ELSE 0 END,
        attempt = CASE WHEN input.renewed THEN 0 ELSE attempt END,
        lost = CASE WHEN input.renewed THEN 0 ELSE lost END
    FROM input CROSS JOIN clock CROSS JOIN {schema}.definition
    WHERE job.id = input.id AND job.status = input.before AND definition.lane = job.lane
    RETURNING job.lane, input.before, job.status, job.updated_at
)
INSERT INTO {schema}.tally_delta (lane, minute, status, n)
SELECT lane, min(updated_at) / 60000000, step.status, step.n * count(*)
FROM moved CROSS JOIN LATERAL (VALUES (moved.before, -1), (moved.status, 1)) AS step (status, n)
WHERE moved.before <> moved.status GROUP BY lane, step.status, step.n;

-- name: reprioritise_jobs
-- Change the priority of waiting locked jobs and keep their due time, with the sort keys of lists.
WITH changed AS (
    UPDATE {schema}.job SET priority = %(priority)s::smallint, rank = due_at - %(priority)s::bigint * {ageing}, updated_at = {now}
    WHERE id = ANY(%(id)s::uuid[]) AND status IN {pending} RETURNING id
),
tagged AS (
    UPDATE {schema}.job_tag SET priority = %(priority)s::smallint FROM changed WHERE job_tag.id = changed.id
)
UPDATE {schema}.job_detail SET schedule_priority = %(priority)s::smallint FROM changed
WHERE job_detail.id = changed.id AND job_detail.schedule IS NOT NULL;

-- name: forget_phases
-- Delete the phase results of these jobs from a position on, and the progress if no phase is left. The record of the
-- tries stays.
WITH gone AS (
    UPDATE {schema}.phase SET forgotten = true, result = NULL
    WHERE job_id = ANY(%(id)s::uuid[]) AND position >= %(position)s AND NOT forgotten
)
DELETE FROM {schema}.progress WHERE job_id = ANY(%(id)s::uuid[]) AND NOT EXISTS (
    SELECT FROM {schema}.phase WHERE phase.job_id = progress.job_id AND status = 'completed' AND NOT forgotten
        AND position < %(position)s
);

-- name: decide_review
-- Save the decision of a review; a result given with it replaces the handler's.
UPDATE {schema}.review SET decision = %(decision)s, decided_by = %(by)s, decided_note = %(note)s, decided_at = {now},
    result = coalesce(%(result)s, result)
WHERE job_id = %(id)s::uuid AND fence = %(fence)s;

-- name: delete_jobs
-- Delete ended jobs and everything that belongs to them; idempotency keys stay, and events with where to find them.
WITH doomed AS MATERIALIZED (
    SELECT job.id, job.lane, job.status, job.fence, job.created_at, job.started_at, job.finished_at,
        definition.key, definition.hooked
    FROM {schema}.job JOIN {schema}.definition ON definition.lane = job.lane
    WHERE job.id = ANY(%(id)s::uuid[]) AND job.status IN {ended} ORDER BY job.id FOR UPDATE OF job
),
job AS (DELETE FROM {schema}.job USING doomed WHERE job.id = doomed.id),
detail AS (DELETE FROM {schema}.job_detail USING doomed WHERE job_detail.id = doomed.id),
tag AS (DELETE FROM {schema}.job_tag USING doomed WHERE job_tag.id = doomed.id),
attempt AS (DELETE FROM {schema}.attempt USING doomed WHERE attempt.job_id = doomed.id),
phase AS (DELETE FROM {schema}.phase USING doomed WHERE phase.job_id = doomed.id),
progress AS (DELETE FROM {schema}.progress USING doomed WHERE progress.job_id = doomed.id),
review AS (DELETE FROM {schema}.review USING doomed WHERE review.job_id = doomed.id),
log AS (DELETE FROM {schema}.log USING doomed WHERE log.job_id = doomed.id),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, data, times)
    SELECT {now}, 'job.deleted', id, json_build_object('definitionKey', key, 'status', {outcome})::text, (
        SELECT array_agg(at) FROM (
            SELECT unnest(ARRAY[created_at, started_at, finished_at]) AS at
            UNION SELECT unnest(ARRAY[started_at, ended_at]) FROM {schema}.attempt WHERE attempt.job_id = doomed.id
        ) AS told_at WHERE {bundled}
    ) FROM doomed
),
called AS (
    INSERT INTO {schema}.hook (lane, job_id, fence, kind, data, at)
    SELECT doomed.lane, doomed.id, fence, 'job.deleted', json_build_object(
        'definitionKey', key, 'status', {outcome}, 'referenceType', reference_type, 'referenceId', reference_id
    )::text, {now}
    FROM doomed JOIN {schema}.job_detail ON job_detail.id = doomed.id WHERE hooked ORDER BY doomed.id
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n)
    SELECT lane, {now} / 60000000, status, -count(*) FROM doomed GROUP BY lane, status
)
SELECT id::text, lane, status FROM doomed;

-- name: hold_control
-- Lock the controls of a definition or of the whole system.
SELECT enabled, pause_reason, pause_by, pause_at, pause_until, concurrency, key_concurrency, rate_count, rate_period,
    rate_per_key, priority, max_attempts, overrides, retired_at, retired_by
FROM {schema}.control WHERE key = %(key)s FOR UPDATE;

-- name: save_control
-- Save the controls of a definition.
UPDATE {schema}.control SET
    enabled = %(enabled)s, pause_reason = %(pause_reason)s, pause_by = %(pause_by)s, pause_at = %(pause_at)s,
    pause_until = %(pause_until)s, concurrency = %(concurrency)s, key_concurrency = %(key_concurrency)s,
    rate_count = %(rate_count)s, rate_period = %(rate_period)s, rate_per_key = %(rate_per_key)s,
    priority = %(priority)s, max_attempts = %(max_attempts)s, overrides = %(overrides)s,
    retired_at = %(retired_at)s::bigint, retired_by = %(retired_by)s, revision = revision + 1
WHERE key = %(key)s;

-- name: bump_controls
-- Raise the number by which workers notice changes of operators with their next heartbeat.
INSERT INTO {schema}.setting AS known (name, value, updated_at, updated_by) VALUES ('controls', '{}', {now}, %(by)s)
ON CONFLICT (name) DO UPDATE SET
    revision = known.revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

-- name: newest_body
-- The body of the newest version of a definition.
SELECT body FROM {schema}.definition WHERE key = %(key)s AND removed_at IS NULL ORDER BY version DESC LIMIT 1;

-- name: blocked_keys_of
-- Concurrency keys of a definition with blocked jobs.
SELECT DISTINCT job.limit_key FROM {schema}.job JOIN {schema}.definition ON definition.lane = job.lane
WHERE job.blocked AND definition.key = %(key)s ORDER BY 1;
