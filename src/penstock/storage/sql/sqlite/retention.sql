-- Statements of retention that keeps an archive: what is to go is read first, and goes when it is written down.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- let about: coalesce(attempt.number, CASE WHEN job.fence = page.fence THEN job.attempt END), CASE WHEN attempt.fence IS NOT NULL THEN attempt.ended_at - attempt.started_at WHEN job.fence = page.fence AND job.done_by IS NOT NULL THEN job.finished_at - job.started_at END, definition.source, detail.schedule, schedule.expression
-- let looked_up: LEFT JOIN job ON job.id = page.job_id LEFT JOIN attempt ON attempt.job_id = page.job_id AND attempt.fence = page.fence LEFT JOIN definition ON definition.lane = job.lane LEFT JOIN job_detail AS detail ON detail.id = page.job_id LEFT JOIN schedule ON schedule.key = detail.schedule
-- let newest_try: NOT EXISTS (SELECT 1 FROM phase AS later WHERE later.job_id = phase.job_id AND later.name = phase.name AND later.fence > phase.fence)
-- let bundled: EXISTS (SELECT 1 FROM event WHERE event.at = told_at.at AND jobs IS NOT NULL)
-- let some_left: EXISTS (SELECT 1 FROM attempt WHERE attempt.job_id = id AND attempt.fence <= upto) OR coalesce((SELECT fence <= upto FROM log WHERE log.job_id = id ORDER BY seq LIMIT 1), 0)

-- name: take_for_archive
-- Ended jobs that were announced as stale and are due for deletion, the longest overdue first; reserved for the caller
-- for a while.
UPDATE job SET retire_at = :now + :hold WHERE id IN (
    SELECT id FROM job WHERE retire_at <= :now AND retired ORDER BY retire_at, id LIMIT :limit
)
RETURNING id, updated_at;

-- name: save_retention
-- Save the retention periods of these lanes; unchanged rows are not written.
UPDATE definition SET stale_after = input.stale_after, delete_after = input.delete_after
FROM {input} AS input WHERE definition.lane = input.lane
    AND (definition.stale_after <> input.stale_after OR definition.delete_after <> input.delete_after)
RETURNING definition.lane;

-- name: hold_stale
-- Ended jobs that became stale and were not announced yet, the longest overdue first.
SELECT id, retired FROM job WHERE retire_at <= :now AND NOT retired ORDER BY retire_at, id LIMIT :limit;

-- name: hold_archived
-- Those of these jobs that have not changed since they were read.
SELECT job.id FROM {input} AS input CROSS JOIN job ON job.id = input.id AND job.updated_at = input.updated_at
WHERE job.retired ORDER BY job.id;

-- name: attempts_of
-- The ended attempts at these jobs.
SELECT job_id, fence, number, worker, status, cause, started_at, ended_at, result, error_type, error,
    traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
FROM {input} AS input CROSS JOIN attempt ON attempt.job_id = input.id
UNION ALL
SELECT id, fence, attempt, done_by, status, 'returned', started_at, finished_at, 'null', NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL
FROM {input} CROSS JOIN job USING (id) WHERE done_by IS NOT NULL ORDER BY job_id, fence;

-- name: phases_of
-- The phases of these jobs, each from its last attempt.
SELECT job_id, name, position, status, progress, message, result, error, fence, started_at, ended_at
FROM {input} AS input CROSS JOIN phase ON phase.job_id = input.id AND NOT forgotten AND {newest_try}
ORDER BY job_id, position, name;

-- name: attempt_phases
-- The phases that each attempt at these jobs began, without their results.
SELECT job_id, name, position, status, progress, message, NULL, error, fence, started_at, ended_at
FROM {input} AS input CROSS JOIN phase ON phase.job_id = input.id ORDER BY job_id, fence, position, name;

-- name: reviews_of
-- The reviews of these jobs with their decisions.
SELECT job_id, fence, note, data, asked_at, decision, decided_by, decided_note, decided_at, result
FROM {input} AS input CROSS JOIN review ON review.job_id = input.id ORDER BY job_id, fence;

-- name: logs_of
-- The log lines of these jobs.
SELECT job_id, seq, fence, at, level, phase, message, details, duration
FROM {input} AS input CROSS JOIN log ON log.job_id = input.id ORDER BY job_id, seq;

-- name: events_of
-- The events of these jobs: their own rows, and their places in the bundles of the times that their rows name.
WITH told_at (id, at) AS MATERIALIZED (
    SELECT id, created_at FROM {input} CROSS JOIN job USING (id)
    UNION SELECT id, started_at FROM {input} CROSS JOIN job USING (id)
    UNION SELECT id, finished_at FROM {input} CROSS JOIN job USING (id)
    UNION SELECT id, started_at FROM {input} CROSS JOIN attempt ON job_id = id
    UNION SELECT id, ended_at FROM {input} CROSS JOIN attempt ON job_id = id
    UNION SELECT input.id, past.value FROM {input} AS input CROSS JOIN event ON job_id = input.id AND times IS NOT NULL
    CROSS JOIN json_each(times) AS past
),
bundled (number, kind, at, job_id, subject, fence, data) AS MATERIALIZED (
    SELECT seq * 1024 + (SELECT key FROM json_each(jobs) WHERE value = told_at.id), kind, event.at, told_at.id, NULL, fence, NULL
    FROM told_at CROSS JOIN event ON event.at = told_at.at AND jobs IS NOT NULL
)
SELECT page.number, page.kind, page.at, page.job_id, page.subject, page.fence, page.data, {about} FROM (
    SELECT seq * 1024 AS number, kind, at, job_id, subject, fence, data
    FROM {input} AS input CROSS JOIN event ON event.job_id = input.id
    UNION ALL
    SELECT * FROM bundled WHERE number IS NOT NULL
) AS page {looked_up} ORDER BY page.number;

-- name: long_histories
-- Jobs after this one that may have more than the last 100 attempts: up to which one they can be pruned, and whether
-- any of these, or of their log lines, exists.
SELECT id, upto, {some_left} FROM (
    SELECT id, fence - 100 - (status IN {live}) AS upto FROM job WHERE fence > 100 AND id > :after ORDER BY id LIMIT :limit
) ORDER BY id;

-- name: prune_attempts
-- Delete a batch of the oldest attempts at these jobs, up to the given ones, with their log lines; an event says so,
-- and where to find their events. Return each job, with whether more are left.
DELETE FROM temp.forgotten;
INSERT INTO temp.forgotten (id, fence, started_at, ended_at)
SELECT job_id, fence, started_at, ended_at FROM {input} AS input CROSS JOIN attempt ON job_id = input.id AND fence <= min(
    upto, coalesce((SELECT old.fence FROM attempt AS old WHERE old.job_id = input.id ORDER BY old.fence LIMIT 1 OFFSET 99), upto)
);
INSERT INTO event (at, kind, job_id, fence, data, times)
SELECT :now, 'job.pruned', last.id, last.fence, json_object('attempts', last.fence), (
    SELECT json_group_array(at) FROM (
        SELECT started_at AS at FROM temp.forgotten AS each WHERE each.id = last.id
        UNION SELECT ended_at FROM temp.forgotten AS each WHERE each.id = last.id
    ) AS told_at WHERE {bundled}
)
FROM (SELECT id, max(fence) AS fence FROM temp.forgotten GROUP BY id) AS last ORDER BY last.id;
DELETE FROM attempt WHERE (job_id, fence) IN (SELECT id, fence FROM temp.forgotten);
DELETE FROM phase WHERE fence <= (SELECT max(each.fence) FROM temp.forgotten AS each WHERE each.id = phase.job_id)
    AND job_id IN (SELECT id FROM temp.forgotten) AND NOT ({newest_try} AND NOT forgotten);
DELETE FROM log WHERE seq IN (
    SELECT seq FROM {input} AS input CROSS JOIN log ON job_id = input.id AND seq <= coalesce(
        (SELECT head.seq FROM log AS head WHERE head.job_id = input.id ORDER BY head.seq LIMIT 1 OFFSET 499), 9223372036854775807
    ) AND fence <= upto
);
SELECT id, {some_left} FROM {input} ORDER BY id;
