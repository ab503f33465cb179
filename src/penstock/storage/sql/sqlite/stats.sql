-- Statements of the admin port that give figures: what goes wrong, what came and went, how long it takes.
-- :now is the wall clock.

-- let ageing: coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'ageing'), 600000000)
-- let retried: -1
-- let lost: -2

-- name: read_errors
-- Failures grouped by fingerprint, of the newest in a time span, and how many were examined; after a place in the list.
WITH recent AS MATERIALIZED (
    SELECT fingerprint, job_id, fence, ended_at FROM attempt
    WHERE fingerprint IS NOT NULL AND ended_at >= :since AND ended_at <= :until
    ORDER BY ended_at DESC LIMIT :look
),
told AS MATERIALIZED (
    SELECT recent.*, definition.key, row_number() OVER (
        PARTITION BY fingerprint, definition.key ORDER BY ended_at DESC, job_id DESC, recent.fence DESC
    ) AS place
    FROM recent CROSS JOIN job ON job.id = recent.job_id JOIN definition ON definition.lane = job.lane
),
alike AS MATERIALIZED (
    SELECT fingerprint, key, count(DISTINCT job_id) AS jobs, count(*) AS attempts, min(ended_at) AS first_at,
        max(ended_at) AS last_at
    FROM told GROUP BY fingerprint, key
),
page AS MATERIALIZED (
    SELECT * FROM alike WHERE (-last_at, fingerprint, key) > (-:past_at, :past_fingerprint, :past_key)
    ORDER BY last_at DESC, fingerprint, key LIMIT :limit
)
SELECT page.fingerprint, page.key, error_type, substr(error, 1, 2000), jobs, attempts, first_at, last_at, told.job_id,
    (SELECT count(*) FROM recent)
FROM page CROSS JOIN told ON told.fingerprint = page.fingerprint AND told.key = page.key AND place = 1
CROSS JOIN attempt ON attempt.job_id = told.job_id AND attempt.fence = told.fence
ORDER BY last_at DESC, page.fingerprint, page.key;

-- name: read_flow
-- How many jobs of each definition came into each status, and how long that took: from a minute on by minutes, from an
-- hour on by hours; or, with grains of 0, ever.
SELECT key, status, sum(n), sum(took) FROM (
    SELECT tally_span.lane, status, n, took FROM definition
    CROSS JOIN (VALUES (:near, :first, :hour), (:far, :hour, 2147483647)) AS spans
    CROSS JOIN tally_span ON tally_span.lane = definition.lane AND grain = spans.column1
        AND span >= spans.column2 AND span < spans.column3
    UNION ALL SELECT lane, status, n, took FROM tally_delta WHERE minute >= :first AND n > 0
) JOIN definition USING (lane)
GROUP BY key, status ORDER BY key, status;

-- name: read_lengths
-- The same by how long it took: how many letters of each kind there are.
WITH RECURSIVE letter (code) AS (SELECT 65 UNION ALL SELECT CASE code WHEN 87 THEN 126 ELSE code + 1 END FROM letter WHERE code < 126),
fresh AS MATERIALIZED (
    SELECT lane, status, group_concat(lengths, '') AS lengths FROM tally_delta
    WHERE minute >= :first AND n > 0 AND lengths IS NOT NULL GROUP BY lane, status
)
SELECT key, status, bucket, sum(n) FROM (
    SELECT tally_length.lane, status, bucket, n FROM definition
    CROSS JOIN (VALUES (:near, :first, :hour), (:far, :hour, 2147483647)) AS spans
    CROSS JOIN tally_length ON tally_length.lane = definition.lane AND grain = spans.column1
        AND span >= spans.column2 AND span < spans.column3
    UNION ALL
    SELECT lane, status, code, length(lengths) - length(replace(lengths, char(code), '')) FROM fresh CROSS JOIN letter
    WHERE instr(lengths, char(code)) > 0
) JOIN definition USING (lane)
GROUP BY key, status, bucket ORDER BY key, status, bucket;

-- name: read_series
-- How many jobs came into each status, span by span; retried and lost ones have numbers that no status has.
SELECT span, status, sum(n) FROM (
    SELECT span, status, n FROM tally_span WHERE lane = 0 AND grain = :grain AND span >= :first
    UNION ALL SELECT minute - minute % :grain, status, n FROM tally_delta WHERE minute >= :first AND n > 0
    UNION ALL
    SELECT span, CASE bucket WHEN 126 THEN {lost} ELSE {retried} END, n FROM tally_length
    WHERE lane = 0 AND grain = :grain AND span >= :first
    UNION ALL
    SELECT minute - minute % :grain, {retried}, length(replace(lengths, '~', '')) FROM tally_delta
    WHERE minute >= :first AND n > 0 AND status = {scheduled} AND lengths IS NOT NULL
    UNION ALL
    SELECT minute - minute % :grain, {lost}, length(lengths) - length(replace(lengths, '~', '')) FROM tally_delta
    WHERE minute >= :first AND n > 0 AND instr(lengths, '~') > 0
)
GROUP BY span, status ORDER BY span, status;

-- name: oldest_ready
-- When the longest waiting job of each definition and priority was due, of those that are ready and come first: looked at
-- are that number of each definition, and the first one after where each priority begins when priorities are strict.
WITH RECURSIVE priority (step) AS (SELECT -1 UNION ALL SELECT step + 1 FROM priority WHERE step < 20)
SELECT key, priority, min(due_at) FROM (
    SELECT definition.key, job.priority, job.due_at FROM definition CROSS JOIN priority CROSS JOIN job ON job.id = (
        SELECT id FROM job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked
            AND rank > CASE step WHEN -1 THEN -9223372036854775807 ELSE :now - {ageing} / 2 - step * {ageing} END
        ORDER BY rank, id LIMIT 1
    )
    UNION ALL
    SELECT definition.key, job.priority, job.due_at FROM definition CROSS JOIN job ON job.id IN (
        SELECT id FROM job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked ORDER BY rank, id LIMIT :look
    )
)
GROUP BY key, priority;

-- name: ready_depths
-- The number of ready jobs of each definition and priority, among the first ones of each definition.
SELECT key, priority, count(*) FROM definition CROSS JOIN job ON job.id IN (
    SELECT id FROM job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked ORDER BY rank, id LIMIT :look
)
GROUP BY key, priority;

-- name: outbox_depths
-- How many hooks and webhooks wait to be sent, up to a cap.
SELECT (SELECT count(*) FROM (SELECT 1 FROM hook LIMIT :cap)),
    (SELECT count(*) FROM (SELECT 1 FROM delivery WHERE status = 'waiting' LIMIT :cap));

-- name: longest_running
-- The jobs that have been running longest, and when they last reported progress.
WITH running AS MATERIALIZED (SELECT id, fence, lane, started_at FROM job WHERE worker IS NOT NULL)
SELECT running.id, key, running.started_at, progress.updated_at FROM running
JOIN definition ON definition.lane = running.lane
LEFT JOIN progress ON progress.job_id = running.id AND progress.fence = running.fence
WHERE running.started_at IS NOT NULL ORDER BY running.started_at, running.id LIMIT :limit;
