-- Statements of the admin port that give figures: what goes wrong, what came and went, how long it takes.
-- {now} is the instant given by the caller, or else the database's own clock.

-- let ageing: coalesce((SELECT value::bigint FROM {schema}.setting WHERE name = 'ageing'), 600000000)
-- let retried: -1
-- let lost: -2

-- name: read_errors
-- Failures grouped by fingerprint, of the newest in a time span, and how many were examined; after a place in the list.
WITH recent AS MATERIALIZED (
    SELECT fingerprint, job_id, fence, ended_at FROM {schema}.attempt
    WHERE fingerprint IS NOT NULL AND ended_at >= %(since)s::bigint AND ended_at <= %(until)s::bigint
    ORDER BY ended_at DESC LIMIT %(look)s::bigint
),
told AS MATERIALIZED (
    SELECT recent.*, definition.key, row_number() OVER (
        PARTITION BY fingerprint, definition.key ORDER BY ended_at DESC, job_id DESC, recent.fence DESC
    ) AS place
    FROM recent CROSS JOIN LATERAL (SELECT lane FROM {schema}.job WHERE job.id = recent.job_id OFFSET 0) AS job
    JOIN {schema}.definition ON definition.lane = job.lane
),
alike AS MATERIALIZED (
    SELECT fingerprint COLLATE "C" AS fingerprint, key COLLATE "C" AS key, count(DISTINCT job_id) AS jobs,
        count(*) AS attempts, min(ended_at) AS first_at, max(ended_at) AS last_at
    FROM told GROUP BY fingerprint, key
),
page AS MATERIALIZED (
    SELECT * FROM alike
    WHERE (-last_at, fingerprint, key) > (-%(past_at)s::bigint, %(past_fingerprint)s::text, %(past_key)s::text)
    ORDER BY last_at DESC, fingerprint, key LIMIT %(limit)s::bigint
)
SELECT page.fingerprint, page.key, newest.error_type, newest.error, jobs, attempts, first_at, last_at,
    told.job_id::text, (SELECT count(*) FROM recent)
FROM page JOIN told ON told.fingerprint = page.fingerprint AND told.key = page.key AND place = 1
CROSS JOIN LATERAL (
    SELECT error_type, left(error, 2000) AS error FROM {schema}.attempt
    WHERE attempt.job_id = told.job_id AND attempt.fence = told.fence OFFSET 0
) AS newest
ORDER BY last_at DESC, page.fingerprint, page.key;

-- name: read_flow
-- How many jobs of each definition came into each status, and how long that took: from a minute on by minutes, from an
-- hour on by hours; or, with grains of 0, ever.
SELECT key, status, sum(n)::bigint, sum(took)::bigint FROM (
    SELECT counted.lane, counted.status, counted.n, counted.took FROM {schema}.definition
    CROSS JOIN (
        VALUES (%(near)s::integer, %(first)s::integer, %(hour)s::integer), (%(far)s::integer, %(hour)s::integer, 2147483647)
    ) AS spans (grain, first, last)
    CROSS JOIN LATERAL (
        SELECT lane, status, n, took FROM {schema}.tally_span
        WHERE tally_span.lane = definition.lane AND tally_span.grain = spans.grain
            AND span >= spans.first AND span < spans.last OFFSET 0
    ) AS counted
    UNION ALL SELECT lane, status, n, took FROM {schema}.tally_delta WHERE minute >= %(first)s::integer AND n > 0
) AS counted JOIN {schema}.definition USING (lane)
GROUP BY key, status ORDER BY key, status;

-- name: read_lengths
-- The same by how long it took: how many letters of each kind there are.
WITH fresh AS MATERIALIZED (
    SELECT lane, status, string_agg(lengths, '') AS lengths FROM {schema}.tally_delta
    WHERE minute >= %(first)s::integer AND n > 0 AND lengths IS NOT NULL GROUP BY lane, status
)
SELECT key, status, bucket, sum(n)::bigint FROM (
    SELECT counted.lane, counted.status, counted.bucket, counted.n FROM {schema}.definition
    CROSS JOIN (
        VALUES (%(near)s::integer, %(first)s::integer, %(hour)s::integer), (%(far)s::integer, %(hour)s::integer, 2147483647)
    ) AS spans (grain, first, last)
    CROSS JOIN LATERAL (
        SELECT lane, status, bucket, n FROM {schema}.tally_length
        WHERE tally_length.lane = definition.lane AND tally_length.grain = spans.grain
            AND span >= spans.first AND span < spans.last OFFSET 0
    ) AS counted
    UNION ALL
    SELECT lane, status, code, octet_length(lengths) - octet_length(replace(lengths, chr(code), ''))
    FROM fresh CROSS JOIN (SELECT generate_series(65, 87) UNION ALL SELECT 126) AS letters (code)
    WHERE position(chr(code) IN lengths) > 0
) AS counted JOIN {schema}.definition USING (lane)
GROUP BY key, status, bucket ORDER BY key, status, bucket;

-- name: read_series
-- How many jobs came into each status, span by span; retried and lost ones have numbers that no status has.
SELECT span, status, sum(n)::bigint FROM (
    SELECT span, status, n FROM {schema}.tally_span
    WHERE lane = 0 AND grain = %(grain)s::integer AND span >= %(first)s::integer
    UNION ALL
    SELECT minute - minute %% %(grain)s::integer, status, n FROM {schema}.tally_delta
    WHERE minute >= %(first)s::integer AND n > 0
    UNION ALL
    SELECT span, CASE bucket WHEN 126 THEN {lost} ELSE {retried} END, n FROM {schema}.tally_length
    WHERE lane = 0 AND grain = %(grain)s::integer AND span >= %(first)s::integer
    UNION ALL
    SELECT minute - minute %% %(grain)s::integer, {retried}, octet_length(replace(lengths, '~', '')) FROM {schema}.tally_delta
    WHERE minute >= %(first)s::integer AND n > 0 AND status = {scheduled} AND lengths IS NOT NULL
    UNION ALL
    SELECT minute - minute %% %(grain)s::integer, {lost}, octet_length(lengths) - octet_length(replace(lengths, '~', ''))
    FROM {schema}.tally_delta WHERE minute >= %(first)s::integer AND n > 0 AND position('~' IN lengths) > 0
) AS counted
GROUP BY span, status ORDER BY span, status;

-- name: oldest_ready
-- When the longest waiting job of each definition and priority was due, of those that are ready and come first: looked at
-- are that number of each definition, and the first one after where each priority begins when priorities are strict.
WITH place AS MATERIALIZED (
    SELECT CASE step WHEN -1 THEN -9223372036854775807
        ELSE {now} - {ageing} / 2 - step * {ageing} END AS rank
    FROM generate_series(-1, 20) AS priority (step)
)
SELECT key, ready.priority, min(ready.due_at) FROM {schema}.definition CROSS JOIN LATERAL (
    SELECT first.due_at, first.priority FROM place CROSS JOIN LATERAL (
        SELECT due_at, priority FROM {schema}.job
        WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked AND job.rank > place.rank
        ORDER BY job.rank, id LIMIT 1
    ) AS first
    UNION ALL
    (
        SELECT due_at, priority FROM {schema}.job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked
        ORDER BY rank, id LIMIT %(look)s::bigint
    )
) AS ready
GROUP BY key, ready.priority;

-- name: ready_depths
-- The number of ready jobs of each definition and priority, among the first ones of each definition.
SELECT key, ready.priority, count(*) FROM {schema}.definition CROSS JOIN LATERAL (
    SELECT priority FROM {schema}.job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked
    ORDER BY rank, id LIMIT %(look)s::bigint
) AS ready
GROUP BY key, ready.priority;

-- name: outbox_depths
-- How many hooks and webhooks wait to be sent, up to a cap.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.hook LIMIT %(cap)s::bigint) AS waiting),
    (SELECT count(*) FROM (SELECT FROM {schema}.delivery WHERE status = 'waiting' LIMIT %(cap)s::bigint) AS waiting);

-- name: longest_running
-- The jobs that have been running longest, and when they last reported progress.
WITH running AS MATERIALIZED (SELECT id, fence, lane, started_at FROM {schema}.job WHERE worker IS NOT NULL)
SELECT running.id::text, key, running.started_at, progress.updated_at FROM running
JOIN {schema}.definition ON definition.lane = running.lane
LEFT JOIN {schema}.progress ON progress.job_id = running.id AND progress.fence = running.fence
WHERE running.started_at IS NOT NULL ORDER BY running.started_at, running.id LIMIT %(limit)s::bigint;
