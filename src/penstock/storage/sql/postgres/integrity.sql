-- The rules between rows outside of transactions; each statement finds the rows that break one.

-- let admitted: limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid))

-- name: broken_details
-- Every job has its details.
SELECT job.id::text FROM {schema}.job LEFT JOIN {schema}.job_detail AS detail ON detail.id = job.id WHERE detail.id IS NULL LIMIT %(limit)s;

-- name: broken_lanes
-- Every job belongs to a definition that is known.
SELECT job.id::text FROM {schema}.job WHERE NOT EXISTS (SELECT FROM {schema}.definition WHERE definition.lane = job.lane) LIMIT %(limit)s;

-- name: broken_children
-- Details, tags, attempts, phases, progress, reviews and logs belong to a job that is there.
SELECT DISTINCT child.id::text FROM (
    SELECT id FROM {schema}.job_detail UNION ALL SELECT id FROM {schema}.job_tag UNION ALL SELECT job_id FROM {schema}.attempt
    UNION ALL SELECT job_id FROM {schema}.progress UNION ALL SELECT job_id FROM {schema}.phase UNION ALL SELECT job_id FROM {schema}.review
    UNION ALL SELECT job_id FROM {schema}.log
) AS child WHERE NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = child.id) LIMIT %(limit)s;

-- name: broken_running
-- A running attempt has no recorded end, and one that is recorded in its job's row has no other record.
SELECT job.id::text FROM {schema}.job JOIN {schema}.attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
WHERE job.worker IS NOT NULL AND job.status IN {live}
UNION ALL
SELECT job.id::text FROM {schema}.job JOIN {schema}.attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
WHERE job.done_by IS NOT NULL LIMIT %(limit)s;

-- name: broken_fences
-- No attempt and no phase is on record under a fence that was never given.
SELECT job.id::text FROM {schema}.job JOIN {schema}.attempt ON attempt.job_id = job.id AND attempt.fence > job.fence
UNION ALL
SELECT job.id::text FROM {schema}.job JOIN {schema}.phase ON phase.job_id = job.id AND phase.fence > job.fence LIMIT %(limit)s;

-- name: broken_blocked
-- No job is blocked while its concurrency key has room, unless the key has a note.
SELECT waiting.id::text FROM {schema}.job AS waiting JOIN {schema}.definition ON definition.lane = waiting.lane
JOIN {schema}.control ON control.key = definition.key
WHERE waiting.blocked AND NOT EXISTS (SELECT FROM {schema}.key_note WHERE key_note.limit_key = waiting.limit_key)
AND (key_concurrency = 0 OR key_concurrency > (
    SELECT count(*) FROM {schema}.job WHERE job.limit_key = waiting.limit_key AND {admitted}
)) AND NOT (rate_per_key AND rate_count > 0 AND EXISTS (
    SELECT FROM {schema}.job WHERE job.limit_key = waiting.limit_key AND {admitted} AND status IN {pending}
)) LIMIT %(limit)s;

-- name: broken_bundles
-- Every event of a bundle is found by its job.
SELECT named.id::text FROM {schema}.event CROSS JOIN unnest(jobs) AS named (id) WHERE jobs IS NOT NULL AND named.id IS NOT NULL
    AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = named.id AND event.at IN (created_at, started_at, finished_at))
    AND NOT EXISTS (SELECT FROM {schema}.attempt WHERE attempt.job_id = named.id AND event.at IN (started_at, ended_at))
    AND NOT EXISTS (
        SELECT FROM {schema}.event AS last WHERE last.job_id = named.id AND last.times IS NOT NULL AND event.at = ANY(last.times)
    )
LIMIT %(limit)s;

-- name: broken_tries
-- Every try of a webhook belongs to a delivery that is there.
SELECT delivery_try.delivery::text FROM {schema}.delivery_try WHERE NOT EXISTS (SELECT FROM {schema}.delivery WHERE delivery.seq = delivery_try.delivery) LIMIT %(limit)s;

-- name: broken_counts
-- The counts by definition and status are those of the rows.
SELECT 'definition ' || lane || ', status ' || status FROM (
    SELECT lane, status, n FROM {schema}.tally UNION ALL SELECT lane, status, n FROM {schema}.tally_delta
    UNION ALL SELECT lane, status, -count(*) FROM {schema}.job GROUP BY lane, status
) AS counted GROUP BY lane, status HAVING sum(n) <> 0 LIMIT %(limit)s;
