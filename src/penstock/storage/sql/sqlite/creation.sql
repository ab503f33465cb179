-- Statements of the jobs port: creating.
-- :now is the wall clock, :steady and :boot the clock of leases; {input} is the table of the rows handed in.
-- The lines before "-- then" are run once for each row handed in.

-- let ageing: coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'ageing'), 600000000)
-- let open: enabled AND retired_at IS NULL AND removed_at IS NULL
-- let expired: idempotency.expires_at <= :now AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = idempotency.job_id AND job.status IN {active})
-- let at: max(coalesce(:due, :now + :delay), :now)
-- let born: CASE WHEN {at} > :now THEN {scheduled} ELSE {queued} END
-- let joined: group_concat(id, '","')
-- let of_one: CASE count(*) WHEN 1 THEN {joined} END
-- let of_many: CASE WHEN count(*) > 1 THEN '["' || {joined} || '"]' END

-- name: claim_keys
-- Take idempotency keys in order; a key that is taken and not expired returns its job.
INSERT INTO idempotency (definition, scope, key, job_id, digest, expires_at)
SELECT definition, scope, key, id, digest, :now + life FROM {input} WHERE true ORDER BY definition, scope, key
ON CONFLICT (definition, scope, key) DO UPDATE SET
    job_id = CASE WHEN {expired} THEN excluded.job_id ELSE job_id END,
    digest = CASE WHEN {expired} THEN excluded.digest ELSE digest END,
    expires_at = CASE WHEN {expired} THEN excluded.expires_at ELSE expires_at END
RETURNING definition, scope, key, job_id, digest;

-- name: move_keys
-- Point idempotency keys to other jobs than they were taken for.
UPDATE idempotency SET job_id = input.id FROM {input} AS input
WHERE (idempotency.definition, idempotency.scope, idempotency.key) = (input.definition, input.scope, input.key);

-- name: create_one
-- Insert one plain job with its details, event and count; nothing when it exists or is refused.
INSERT INTO job (id, lane, status, priority, max_attempts, due_at, rank, created_at, updated_at, queued_at)
SELECT :id, :lane, {born}, urgency, attempts, {at}, {at} - urgency * {ageing}, :now, :now,
    CASE WHEN {at} <= :now THEN :now END
FROM (
    SELECT CASE WHEN :priority_given THEN :priority ELSE coalesce(priority, :priority) END AS urgency,
        CASE WHEN :attempts_given THEN :max_attempts ELSE coalesce(max_attempts, :max_attempts) END AS attempts
    FROM definition CROSS JOIN control USING (key) WHERE lane = :lane AND {open}
) WHERE true
ON CONFLICT DO NOTHING;
INSERT INTO job_detail (
    id, lane, params, reference_type, reference_id, webhook_url, schedule, scheduled_for, parent, rerun_of,
    traceparent, actor, schedule_priority
)
SELECT :id, :lane, :params, :reference_type, :reference_id, :webhook_url, :schedule, :scheduled_for, :parent, :rerun_of,
    :traceparent, :actor, CASE WHEN :schedule IS NOT NULL THEN (SELECT priority FROM job WHERE id = :id) END
WHERE changes() = 1;
INSERT INTO event (at, kind, job_id) SELECT :now, 'job.enqueued', :id WHERE changes() = 1;
INSERT INTO tally_delta (lane, minute, status, n) SELECT :lane, :now / 60000000, {born}, 1 WHERE changes() = 1;
SELECT :id, {born} WHERE changes() = 1;

-- name: create_uniform
-- Insert jobs that differ only in id and parameters; return how many were inserted, in which status, and if not all,
-- which. Existing ones are searched only when a job exists that is not older than all of these.
DELETE FROM {input} WHERE (
        (SELECT min(id) FROM {input}) <= (SELECT max(id) FROM job)
        AND id IN (SELECT job.id FROM {input} AS input CROSS JOIN job ON job.id = input.id)
    )
    OR :lane NOT IN (SELECT lane FROM definition JOIN control USING (key) WHERE {open});
INSERT INTO job (id, lane, status, priority, max_attempts, due_at, rank, created_at, updated_at, queued_at)
SELECT id, :lane, {born}, urgency, attempts, {at}, {at} - urgency * {ageing}, :now, :now,
    CASE WHEN {at} <= :now THEN :now END
FROM {input} CROSS JOIN (
    SELECT CASE WHEN :priority_given THEN :priority ELSE coalesce(priority, :priority) END AS urgency,
        CASE WHEN :attempts_given THEN :max_attempts ELSE coalesce(max_attempts, :max_attempts) END AS attempts
    FROM control WHERE key = (SELECT key FROM definition WHERE lane = :lane)
);
INSERT INTO job_detail (
    id, lane, params, reference_type, reference_id, webhook_url, schedule, scheduled_for, parent, rerun_of,
    traceparent, actor, schedule_priority
)
SELECT id, :lane, params, :reference_type, :reference_id, :webhook_url, :schedule, :scheduled_for, :parent, :rerun_of,
    :traceparent, :actor, CASE WHEN :schedule IS NOT NULL THEN (SELECT priority FROM job WHERE job.id = input.id) END
FROM {input} AS input;
INSERT INTO event (at, kind, job_id, jobs)
SELECT :now, 'job.enqueued', {of_one}, {of_many} FROM {input} GROUP BY rowid / 1000;
INSERT INTO tally_delta (lane, minute, status, n)
SELECT :lane, :now / 60000000, {born}, count(*) FROM {input} HAVING count(*) > 0;
SELECT count(*), {born}, CASE WHEN count(*) < :n THEN group_concat(id) END FROM {input};

-- name: create_jobs
-- Insert jobs with their details, events and counts; existing and refused ones are not returned.
DELETE FROM {input} WHERE id IN (SELECT job.id FROM {input} AS input CROSS JOIN job ON job.id = input.id)
    OR lane NOT IN (SELECT lane FROM definition JOIN control USING (key) WHERE {open});
INSERT INTO job (
    id, lane, status, priority, max_attempts, due_at, rank, blocked, limit_key, unique_key,
    created_at, updated_at, queued_at
)
SELECT id, lane, CASE WHEN at > :now THEN {scheduled} ELSE {queued} END, urgency, attempts, at,
    at - urgency * {ageing}, at <= :now AND limit_key IS NOT NULL, limit_key, unique_key,
    :now, :now, CASE WHEN at > :now THEN NULL ELSE :now END
FROM (
    SELECT input.*, max(coalesce(due, :now + delay), :now) AS at,
        CASE WHEN priority_given THEN input.priority ELSE coalesce(control.priority, input.priority) END AS urgency,
        CASE WHEN attempts_given THEN input.max_attempts ELSE coalesce(control.max_attempts, input.max_attempts) END AS attempts
    FROM {input} AS input CROSS JOIN definition ON definition.lane = input.lane CROSS JOIN control USING (key)
) WHERE true
ON CONFLICT DO NOTHING;
DELETE FROM {input} WHERE unique_key IS NOT NULL AND id NOT IN (SELECT id FROM job);
INSERT INTO job_detail (
    id, lane, params, reference_type, reference_id, tags, idempotency_key, webhook_url, schedule,
    scheduled_for, parent, rerun_of, traceparent, actor, schedule_priority
)
SELECT id, lane, params, reference_type, reference_id, tags, idempotency_key, webhook_url, schedule,
    scheduled_for, parent, rerun_of, traceparent, actor,
    CASE WHEN schedule IS NOT NULL THEN (SELECT priority FROM job WHERE job.id = input.id) END FROM {input} AS input;
INSERT INTO event (at, kind, job_id, jobs)
SELECT :now, 'job.enqueued', {of_one}, {of_many} FROM {input} GROUP BY rowid / 1000;
INSERT INTO tally_delta (lane, minute, status, n)
SELECT input.lane, :now / 60000000, job.status, count(*) FROM {input} AS input CROSS JOIN job ON job.id = input.id
GROUP BY input.lane, job.status;
SELECT input.id, job.status FROM {input} AS input CROSS JOIN job ON job.id = input.id;

-- name: tag_jobs
-- Insert the tags of jobs.
INSERT INTO job_tag (tag, id, priority)
SELECT tag, input.id, job.priority FROM {input} AS input CROSS JOIN job ON job.id = input.id WHERE true
ON CONFLICT DO NOTHING;

-- name: find_jobs
-- Jobs by id: the stored status and the current one.
SELECT job.id, job.status, CASE WHEN job.stale_at <= :now THEN {stale} ELSE job.status END
FROM {input} AS input CROSS JOIN job ON job.id = input.id;

-- name: find_unique
-- The active jobs with these unique keys.
SELECT job.unique_key, job.id, job.status FROM {input} AS input
JOIN job ON job.unique_key = input.unique_key AND job.unique_key IS NOT NULL AND job.status IN {active};

-- name: find_refusing
-- Which of these lanes refuse jobs, and why: unknown, or disabled, retired or removed by an operator.
SELECT input.lane, control.key, definition.version, control.retired_by, removed_at IS NOT NULL FROM {input} AS input
LEFT JOIN definition ON definition.lane = input.lane LEFT JOIN control ON control.key = definition.key
WHERE ({open}) IS NOT TRUE;
