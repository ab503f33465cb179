-- The rules between rows outside of transactions; each statement finds the rows that break one.

-- let admitted: limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid))

-- name: broken_details
-- Every job has its details.
SELECT job.id FROM job LEFT JOIN job_detail AS detail ON detail.id = job.id WHERE detail.id IS NULL LIMIT :limit;

-- name: broken_lanes
-- Every job belongs to a definition that is known.
SELECT job.id FROM job WHERE NOT EXISTS (SELECT 1 FROM definition WHERE definition.lane = job.lane) LIMIT :limit;

-- name: broken_children
-- Details, tags, attempts, phases, progress, reviews and logs belong to a job that is there.
SELECT DISTINCT child.id FROM (
    SELECT id FROM job_detail UNION ALL SELECT id FROM job_tag UNION ALL SELECT job_id FROM attempt
    UNION ALL SELECT job_id FROM progress UNION ALL SELECT job_id FROM phase UNION ALL SELECT job_id FROM review
    UNION ALL SELECT job_id FROM log
) AS child WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = child.id) LIMIT :limit;

-- name: broken_running
-- A running attempt has no recorded end, and one that is recorded in its job's row has no other record.
SELECT job.id FROM job JOIN attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
WHERE job.worker IS NOT NULL AND job.status IN {live}
UNION ALL
SELECT job.id FROM job JOIN attempt ON attempt.job_id = job.id AND attempt.fence = job.fence
WHERE job.done_by IS NOT NULL LIMIT :limit;

-- name: broken_fences
-- No attempt and no phase is on record under a fence that was never given.
SELECT job.id FROM job JOIN attempt ON attempt.job_id = job.id AND attempt.fence > job.fence
UNION ALL
SELECT job.id FROM job JOIN phase ON phase.job_id = job.id AND phase.fence > job.fence LIMIT :limit;

-- name: broken_blocked
-- Nothing is blocked while its concurrency key has room.
SELECT waiting.id FROM job AS waiting JOIN definition ON definition.lane = waiting.lane JOIN control USING (key)
WHERE waiting.blocked AND (key_concurrency = 0 OR key_concurrency > (
    SELECT count(*) FROM job WHERE job.limit_key = waiting.limit_key AND {admitted}
)) AND NOT (rate_per_key AND rate_count > 0 AND EXISTS (
    SELECT 1 FROM job WHERE job.limit_key = waiting.limit_key AND {admitted} AND status IN {pending}
)) LIMIT :limit;

-- name: broken_bundles
-- Every event of a bundle is found by its job.
SELECT named.value FROM event CROSS JOIN json_each(jobs) AS named WHERE jobs IS NOT NULL AND named.value IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = named.value AND event.at IN (created_at, started_at, finished_at))
    AND NOT EXISTS (SELECT 1 FROM attempt WHERE attempt.job_id = named.value AND event.at IN (started_at, ended_at))
    AND NOT EXISTS (
        SELECT 1 FROM event AS last CROSS JOIN json_each(last.times) AS past
        WHERE last.job_id = named.value AND last.times IS NOT NULL AND past.value = event.at
    )
LIMIT :limit;

-- name: broken_tries
-- Every try of a webhook belongs to a delivery that is there.
SELECT delivery_try.delivery FROM delivery_try WHERE NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.seq = delivery_try.delivery) LIMIT :limit;

-- name: broken_counts
-- The counts by definition and status are those of the rows.
SELECT 'definition ' || lane || ', status ' || status FROM (
    SELECT lane, status, n FROM tally UNION ALL SELECT lane, status, n FROM tally_delta
    UNION ALL SELECT lane, status, -count(*) FROM job GROUP BY lane, status
) AS counted GROUP BY lane, status HAVING sum(n) <> 0 LIMIT :limit;
