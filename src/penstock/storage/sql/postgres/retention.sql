-- Statements of retention that keeps an archive: what is to go is read first, and goes when it is written down.
-- {now} is the instant given by the caller, or else the database's own clock; in a separate query it is read
-- once, so that an index can be searched for it.

-- let about: coalesce(attempt.number, CASE WHEN known.fence = page.fence THEN known.attempt END), CASE WHEN attempt.number IS NOT NULL THEN attempt.took WHEN known.fence = page.fence AND known.done_by IS NOT NULL THEN known.took END, known.source, known.schedule, known.expression
-- let facts_of_job: SELECT job.fence, job.attempt, job.done_by, job.finished_at - job.started_at AS took, definition.source, detail.schedule, schedule.expression FROM {schema}.job LEFT JOIN {schema}.definition ON definition.lane = job.lane LEFT JOIN {schema}.job_detail AS detail ON detail.id = job.id LEFT JOIN {schema}.schedule ON schedule.key = detail.schedule WHERE job.id = page.job_id OFFSET 0
-- let looked_up: LEFT JOIN LATERAL ({facts_of_job}) AS known ON true LEFT JOIN LATERAL (SELECT number, ended_at - started_at AS took FROM {schema}.attempt WHERE attempt.job_id = page.job_id AND attempt.fence = page.fence OFFSET 0) AS attempt ON true
-- let newest_try: NOT EXISTS (SELECT FROM {schema}.phase AS later WHERE later.job_id = phase.job_id AND later.name = phase.name AND later.fence > phase.fence)
-- let bundled: EXISTS (SELECT FROM {schema}.event WHERE event.at = told_at.at AND jobs IS NOT NULL)

-- name: take_for_archive
-- Ended jobs that were announced as stale and are due for deletion, the longest overdue first; reserved for the caller
-- for a while.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}.job WHERE retire_at <= (SELECT {now}) AND retired
    ORDER BY retire_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.job SET retire_at = {now} + %(hold)s::bigint FROM chosen WHERE job.id = chosen.id
RETURNING job.id::text, job.updated_at;

-- name: save_retention
-- Save the retention periods of these lanes; unchanged rows are not written.
UPDATE {schema}.definition SET stale_after = input.stale_after, delete_after = input.delete_after
FROM unnest(%(lane)s::integer[], %(stale_after)s::bigint[], %(delete_after)s::bigint[])
    AS input (lane, stale_after, delete_after)
WHERE definition.lane = input.lane
    AND (definition.stale_after <> input.stale_after OR definition.delete_after <> input.delete_after)
RETURNING definition.lane;

-- name: hold_stale
-- Lock ended jobs that became stale and were not announced yet, the longest overdue first.
SELECT id::text, retired FROM {schema}.job WHERE retire_at <= (SELECT {now}) AND NOT retired
ORDER BY retire_at, job.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: hold_archived
-- Lock those of these jobs that have not changed since they were read. Another reader with an older snapshot may lock
-- some for a moment: to skip those would archive them twice.
SELECT job.id::text FROM unnest(%(id)s::uuid[], %(updated_at)s::bigint[]) AS input (id, updated_at)
JOIN {schema}.job ON job.id = input.id AND job.updated_at = input.updated_at
WHERE job.retired ORDER BY job.id FOR UPDATE OF job;

-- name: attempts_of
-- The ended attempts at these jobs.
SELECT job_id::text, fence, number, worker::text, status, cause, started_at, ended_at, result, error_type, error,
    traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
FROM {schema}.attempt WHERE job_id = ANY(%(id)s::uuid[])
UNION ALL
SELECT id::text, fence, attempt, done_by::text, status, 'returned', started_at, finished_at, 'null', NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL
FROM {schema}.job WHERE id = ANY(%(id)s::uuid[]) AND done_by IS NOT NULL ORDER BY job_id, fence;

-- name: phases_of
-- The phases of these jobs, each from its last attempt.
SELECT job_id::text, name, position, status, progress, message, result, error, fence, started_at, ended_at
FROM {schema}.phase WHERE job_id = ANY(%(id)s::uuid[]) AND NOT forgotten AND {newest_try} ORDER BY job_id, position, name;

-- name: attempt_phases
-- The phases that each attempt at these jobs began, without their results.
SELECT job_id::text, name, position, status, progress, message, NULL, error, fence, started_at, ended_at
FROM {schema}.phase WHERE job_id = ANY(%(id)s::uuid[]) ORDER BY job_id, fence, position, name;

-- name: reviews_of
-- The reviews of these jobs with their decisions.
SELECT job_id::text, fence, note, data, asked_at, decision, decided_by, decided_note, decided_at, result
FROM {schema}.review WHERE job_id = ANY(%(id)s::uuid[]) ORDER BY job_id, fence;

-- name: logs_of
-- The log lines of these jobs.
SELECT job_id::text, seq, fence, at, level, phase, message, details, duration FROM {schema}.log
WHERE job_id = ANY(%(id)s::uuid[]) ORDER BY job_id, seq;

-- name: events_of
-- The events of these jobs: their own rows, and their places in the bundles of the times that their rows name.
WITH told_at AS MATERIALIZED (
    SELECT id, unnest(ARRAY[created_at, started_at, finished_at]) AS at FROM {schema}.job WHERE id = ANY(%(id)s::uuid[])
    UNION SELECT job_id, unnest(ARRAY[started_at, ended_at]) FROM {schema}.attempt WHERE job_id = ANY(%(id)s::uuid[])
    UNION SELECT job_id, unnest(times) FROM {schema}.event WHERE job_id = ANY(%(id)s::uuid[]) AND times IS NOT NULL
)
SELECT page.number, page.kind, page.at, page.job_id::text, page.subject, page.fence, page.data, {about} FROM (
    SELECT seq * 1024 AS number, kind, at, job_id, subject, fence, data FROM {schema}.event
    WHERE job_id = ANY(%(id)s::uuid[])
    UNION ALL
    SELECT seq * 1024 + place - 1, kind, told_at.at, id, NULL, fence, NULL
    FROM told_at CROSS JOIN LATERAL (
        SELECT seq, kind, fence, array_position(jobs, told_at.id) AS place FROM {schema}.event
        WHERE event.at = told_at.at AND jobs IS NOT NULL OFFSET 0
    ) AS bundle
    WHERE place IS NOT NULL
) AS page {looked_up} ORDER BY page.number;

-- name: long_histories
-- Jobs after this one that may have more than the last 100 attempts: up to which one they can be pruned, and whether
-- any of these, or of their log lines, exists.
SELECT id::text, upto, EXISTS (SELECT FROM {schema}.attempt WHERE attempt.job_id = id AND attempt.fence <= upto)
    OR coalesce((SELECT fence <= upto FROM {schema}.log WHERE log.job_id = id ORDER BY seq LIMIT 1), false)
FROM (
    SELECT id, fence - 100 - CASE WHEN status IN {live} THEN 1 ELSE 0 END AS upto FROM {schema}.job
    WHERE fence > 100 AND id > %(after)s::uuid ORDER BY id LIMIT %(limit)s
) AS long ORDER BY id;

-- name: prune_attempts
-- Delete a batch of the oldest attempts at these jobs, up to the given ones, with their log lines; an event says so,
-- and where to find their events. Return each job that was not locked by another transaction, with whether more are
-- left.
WITH input AS (SELECT * FROM unnest(%(id)s::uuid[], %(upto)s::integer[]) AS input (id, upto)),
held AS MATERIALIZED (
    SELECT job.id, upto FROM {schema}.job JOIN input ON input.id = job.id ORDER BY job.id FOR KEY SHARE OF job SKIP LOCKED
),
old AS MATERIALIZED (
    SELECT held.id, attempt.fence FROM held CROSS JOIN LATERAL (
        SELECT fence FROM {schema}.attempt WHERE attempt.job_id = held.id AND fence <= upto ORDER BY fence LIMIT 100
    ) AS attempt
),
gone AS (
    DELETE FROM {schema}.attempt USING old WHERE attempt.job_id = old.id AND attempt.fence = old.fence
    RETURNING attempt.job_id, attempt.fence, started_at, ended_at
),
untried AS (
    DELETE FROM {schema}.phase USING (SELECT id, max(fence) AS fence FROM old GROUP BY id) AS last
    WHERE phase.job_id = last.id AND phase.fence <= last.fence AND NOT ({newest_try} AND NOT forgotten)
),
lines AS MATERIALIZED (
    SELECT held.id, log.seq FROM held CROSS JOIN LATERAL (
        SELECT seq, fence FROM {schema}.log WHERE log.job_id = held.id ORDER BY seq LIMIT 500
    ) AS log WHERE log.fence <= upto
),
unlogged AS (DELETE FROM {schema}.log USING lines WHERE log.job_id = lines.id AND log.seq = lines.seq),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, fence, data, times)
    SELECT {now}, 'job.pruned', last.job_id, last.fence, json_build_object('attempts', last.fence)::text, ARRAY(
        SELECT DISTINCT at FROM (
            SELECT unnest(ARRAY[started_at, ended_at]) AS at FROM gone WHERE gone.job_id = last.job_id
        ) AS told_at WHERE {bundled}
    ) FROM (SELECT job_id, max(fence) AS fence FROM gone GROUP BY job_id ORDER BY job_id) AS last
)
SELECT id::text, (SELECT count(*) = 100 FROM old WHERE old.id = held.id) OR (SELECT count(*) = 500 FROM lines WHERE lines.id = held.id)
FROM held ORDER BY id;
