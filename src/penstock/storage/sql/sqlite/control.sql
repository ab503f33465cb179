-- Statements of the control port: what operators do to jobs and definitions.
-- :now is the wall clock; {input} is the table of the rows handed in; other {names} are let here.

-- let ageing: coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'ageing'), 600000000)
-- let told_now: CASE WHEN job.stale_at <= :now THEN {stale} ELSE job.status END
-- let outcome: CASE status WHEN {succeeded} THEN 'succeeded' WHEN {failed} THEN 'failed' ELSE 'cancelled' END
-- let bundled: EXISTS (SELECT 1 FROM event WHERE event.at = told_at.at AND jobs IS NOT NULL)

-- name: filter_job_id
-- Jobs with one of these ids.
job.id IN (SELECT value FROM json_each(:filter_job_id))

-- name: filter_status
-- Jobs with one of these statuses now; stale is derived.
job.status IN (SELECT value FROM json_each(:filter_stored)) AND {told_now} IN (SELECT value FROM json_each(:filter_status))

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
detail.lane IN (SELECT lane FROM definition WHERE key = :filter_definition_key)

-- name: filter_reference_type
-- Jobs that refer to a thing of this type.
detail.reference_type = :filter_reference_type

-- name: filter_reference_id
-- Jobs that refer to the thing with this id.
detail.reference_id = :filter_reference_id

-- name: filter_tag
-- Jobs with this tag.
job.id IN (SELECT id FROM job_tag WHERE tag = :filter_tag)

-- name: filter_schedule_id
-- Jobs that this schedule made.
detail.schedule = :filter_schedule_id

-- name: filter_created_from
-- Jobs created at this instant or later.
job.created_at >= :filter_created_from

-- name: filter_created_to
-- Jobs created before this instant.
job.created_at < :filter_created_to

-- name: filter_fingerprint
-- Jobs with an attempt that failed this way.
job.id IN (SELECT job_id FROM attempt WHERE fingerprint = :filter_fingerprint)

-- name: filter_parent_id
-- Jobs that this job created.
detail.parent = :filter_parent_id

-- name: select_jobs
-- Ids of jobs that match a filter, in order of id.
SELECT job.id FROM job JOIN job_detail AS detail ON detail.id = job.id
WHERE job.id > :after AND {filters} ORDER BY job.id LIMIT :limit;

-- name: hold_jobs
-- Jobs in order of id, with their current status and what a change needs; the transaction is the only writer.
SELECT job.id, {told_now}, job.status, job.fence, job.priority, job.due_at, job.generation,
    job.limit_key, job.unique_key, definition.key, :now, job.lane, definition.hooked
FROM {input} AS input CROSS JOIN job ON job.id = input.id JOIN definition ON definition.lane = job.lane ORDER BY job.id;

-- name: move_jobs
-- Change the status of locked jobs, each from its known status; renewed ones begin another generation. An attempt that
-- was recorded only in the job's row gets a separate row.
INSERT INTO tally_delta (lane, minute, status, n)
SELECT lane, :now / 60000000, CASE step.column1 WHEN 1 THEN input.status ELSE input.before END AS counted,
    step.column1 * count(*)
FROM {input} AS input CROSS JOIN job USING (id) CROSS JOIN (VALUES (-1), (1)) AS step
WHERE input.before <> input.status AND job.status = input.before GROUP BY lane, counted, step.column1;
INSERT INTO attempt (job_id, fence, number, status, cause, worker, started_at, ended_at, result)
SELECT id, fence, attempt, job.status, 'returned', done_by, started_at, finished_at, 'null'
FROM {input} AS input CROSS JOIN job USING (id) WHERE done_by IS NOT NULL AND job.status = input.before;
UPDATE job SET
    done_by = NULL, status = input.status, updated_at = :now, rate_paid = 0,
    blocked = input.status = {queued} AND limit_key IS NOT NULL,
    due_at = coalesce(input.due, due_at),
    rank = coalesce(input.due - priority * {ageing}, rank),
    queued_at = CASE WHEN input.status = {queued} AND input.before <> {queued} THEN :now ELSE queued_at END,
    cancel_at = CASE WHEN input.status IN ({cancelling}, {cancelled}) THEN :now WHEN NOT input.renewed THEN cancel_at END,
    finished_at = CASE WHEN input.status IN {ended} THEN :now END,
    stale_at = CASE WHEN input.status IN {ended} THEN :now + (SELECT stale_after FROM definition WHERE lane = job.lane) END,
    retire_at = CASE WHEN input.status IN {ended} THEN :now + (SELECT stale_after FROM definition WHERE lane = job.lane) END,
    retired = retired AND NOT input.renewed,
    generation = generation + input.renewed,
    attempt = CASE WHEN input.renewed THEN 0 ELSE attempt END,
    lost = CASE WHEN input.renewed THEN 0 ELSE lost END
FROM {input} AS input WHERE job.id = input.id AND job.status = input.before;

-- name: reprioritise_jobs
-- Change the priority of waiting locked jobs and keep their due time, with the sort keys of lists.
DELETE FROM {input} WHERE id NOT IN (SELECT job.id FROM {input} AS input CROSS JOIN job ON job.id = input.id WHERE job.status IN {pending});
UPDATE job SET priority = :priority, rank = due_at - :priority * {ageing}, updated_at = :now
WHERE id IN (SELECT id FROM {input});
UPDATE job_tag SET priority = :priority WHERE id IN (SELECT id FROM {input});
UPDATE job_detail SET schedule_priority = :priority WHERE id IN (SELECT id FROM {input}) AND schedule IS NOT NULL;

-- name: forget_phases
-- Delete the phase results of these jobs from a position on, and the progress if no phase is left. The record of the
-- tries stays.
UPDATE phase SET forgotten = 1, result = NULL
WHERE job_id IN (SELECT id FROM {input}) AND position >= :position AND NOT forgotten;
DELETE FROM progress WHERE job_id IN (SELECT id FROM {input}) AND NOT EXISTS (
    SELECT 1 FROM phase WHERE phase.job_id = progress.job_id AND status = 'completed' AND NOT forgotten
);

-- name: decide_review
-- Save the decision of a review; a result given with it replaces the handler's.
UPDATE review SET decision = :decision, decided_by = :by, decided_note = :note, decided_at = :now,
    result = coalesce(:result, result)
WHERE job_id = :id AND fence = :fence;

-- name: delete_jobs
-- Delete ended jobs and everything that belongs to them; idempotency keys stay, and events with where to find them.
DELETE FROM {input} WHERE id NOT IN (SELECT job.id FROM {input} AS input CROSS JOIN job ON job.id = input.id WHERE job.status IN {ended});
INSERT INTO event (at, kind, job_id, data, times)
SELECT :now, 'job.deleted', job.id, json_object('definitionKey', key, 'status', {outcome}), (
    SELECT json_group_array(at) FROM (
        SELECT job.created_at AS at UNION SELECT job.started_at UNION SELECT job.finished_at
        UNION SELECT started_at FROM attempt WHERE attempt.job_id = job.id
        UNION SELECT ended_at FROM attempt WHERE attempt.job_id = job.id
    ) AS told_at WHERE {bundled} HAVING count(*) > 0
)
FROM {input} AS input CROSS JOIN job USING (id) JOIN definition ON definition.lane = job.lane ORDER BY job.id;
INSERT INTO hook (lane, job_id, fence, kind, data, at)
SELECT job.lane, job.id, fence, 'job.deleted', json_object(
    'definitionKey', key, 'status', {outcome}, 'referenceType', reference_type, 'referenceId', reference_id
), :now
FROM {input} AS input CROSS JOIN job USING (id) JOIN definition ON definition.lane = job.lane AND hooked
CROSS JOIN job_detail ON job_detail.id = job.id ORDER BY job.id;
INSERT INTO tally_delta (lane, minute, status, n)
SELECT lane, :now / 60000000, status, -count(*) FROM {input} AS input CROSS JOIN job USING (id) GROUP BY lane, status;
DELETE FROM job_detail WHERE id IN (SELECT id FROM {input});
DELETE FROM job_tag WHERE id IN (SELECT id FROM {input});
DELETE FROM attempt WHERE job_id IN (SELECT id FROM {input});
DELETE FROM phase WHERE job_id IN (SELECT id FROM {input});
DELETE FROM progress WHERE job_id IN (SELECT id FROM {input});
DELETE FROM review WHERE job_id IN (SELECT id FROM {input});
DELETE FROM log WHERE job_id IN (SELECT id FROM {input});
DELETE FROM job WHERE id IN (SELECT id FROM {input}) RETURNING id, lane, status;

-- name: hold_control
-- The controls of a definition or of the whole system.
SELECT enabled, pause_reason, pause_by, pause_at, pause_until, concurrency, key_concurrency, rate_count, rate_period,
    rate_per_key, priority, max_attempts, overrides, retired_at, retired_by
FROM control WHERE key = :key;

-- name: save_control
-- Save the controls of a definition.
UPDATE control SET
    enabled = :enabled, pause_reason = :pause_reason, pause_by = :pause_by, pause_at = :pause_at,
    pause_until = :pause_until, concurrency = :concurrency, key_concurrency = :key_concurrency,
    rate_count = :rate_count, rate_period = :rate_period, rate_per_key = :rate_per_key,
    priority = :priority, max_attempts = :max_attempts, overrides = :overrides,
    retired_at = :retired_at, retired_by = :retired_by, revision = revision + 1
WHERE key = :key;

-- name: bump_controls
-- Raise the number by which workers notice changes of operators with their next heartbeat.
INSERT INTO setting (name, value, updated_at, updated_by) VALUES ('controls', '{}', :now, :by)
ON CONFLICT (name) DO UPDATE SET
    revision = revision + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

-- name: newest_body
-- The body of the newest version of a definition.
SELECT body FROM definition WHERE key = :key AND removed_at IS NULL ORDER BY version DESC LIMIT 1;

-- name: blocked_keys_of
-- Concurrency keys of a definition with blocked jobs.
SELECT DISTINCT job.limit_key FROM job JOIN definition ON definition.lane = job.lane
WHERE job.blocked AND definition.key = :key ORDER BY 1;
