-- Statements of the feed port. There is one writer at a time and no number is given twice, so a cursor is the number of
-- an event, and the tip that of the last one that the newest row has room for.

-- What is `looked_up` about the job and the attempt of an event is known while they are kept.

-- let about: coalesce(attempt.number, CASE WHEN job.fence = page.fence THEN job.attempt END), CASE WHEN attempt.fence IS NOT NULL THEN attempt.ended_at - attempt.started_at WHEN job.fence = page.fence AND job.done_by IS NOT NULL THEN job.finished_at - job.started_at END, definition.source, detail.schedule, schedule.expression
-- let looked_up: LEFT JOIN job ON job.id = page.job_id LEFT JOIN attempt ON attempt.job_id = page.job_id AND attempt.fence = page.fence LEFT JOIN definition ON definition.lane = job.lane LEFT JOIN job_detail AS detail ON detail.id = page.job_id LEFT JOIN schedule ON schedule.key = detail.schedule
-- let valid: :base NOT GLOB '*[^0-9]*' AND length(:base) BETWEEN 1 AND 18 AND (:target IS NULL OR :target NOT GLOB '*[^0-9]*' AND length(:target) BETWEEN 1 AND 18)
-- let tip: coalesce((SELECT seq * 1024 + 1023 FROM sqlite_sequence WHERE name = 'event'), 0)
-- let seen: max(CAST(:base AS INTEGER), :last)

-- name: feed_tip
-- This moment, and the number of removals from the feed.
SELECT revision, CAST({tip} AS TEXT) FROM feed_horizon;

-- name: feed_origin
-- The moment before every event, and the number of removals from the feed.
SELECT revision, '0' FROM feed_horizon;

-- name: read_feed
-- Events that are not in the base and are in the target (without a target: committed by now), after a number, in order
-- of numbers. With each event, or alone: whether the cursor is valid, whether removed events are missing, the number of
-- removals, the number of rows examined (none: the table is in order), this moment.
SELECT {valid}, {seen} > {tip} OR (horizon.revision <> :revision AND horizon.seq > {seen}), horizon.revision, 0,
    CAST({tip} AS TEXT), page.number, page.kind, page.at, page.job_id, page.subject, page.fence, page.data, {about}
FROM feed_horizon AS horizon LEFT JOIN (
    SELECT event.seq * 1024 + told.key AS number, kind, at, iif(jobs IS NULL, job_id, told.value) AS job_id, subject, fence, data
    FROM event CROSS JOIN json_each(coalesce(jobs, '[0]')) AS told
    WHERE event.seq >= {seen} / 1024 AND event.seq <= coalesce(CAST(:target AS INTEGER), {tip}) / 1024
        AND event.seq * 1024 + told.key > {seen} AND told.value IS NOT NULL
    ORDER BY event.seq LIMIT :limit
) AS page ON {valid} {looked_up}
ORDER BY page.number;

-- name: cut_feed
-- A target for a reader that lags far: not needed on SQLite.
SELECT NULL;

-- name: job_events
-- The events of one job, in order: its own rows, and its places in the bundles of the times that its rows name.
WITH told_at (at) AS MATERIALIZED (
    SELECT created_at FROM job WHERE id = :id UNION SELECT started_at FROM job WHERE id = :id
    UNION SELECT finished_at FROM job WHERE id = :id
    UNION SELECT started_at FROM attempt WHERE job_id = :id UNION SELECT ended_at FROM attempt WHERE job_id = :id
    UNION SELECT past.value FROM event CROSS JOIN json_each(times) AS past WHERE job_id = :id AND times IS NOT NULL
),
bundled AS MATERIALIZED (
    SELECT seq * 1024 + (SELECT key FROM json_each(jobs) WHERE value = :id), kind, event.at, NULL, fence, NULL
    FROM told_at CROSS JOIN event ON event.at = told_at.at AND jobs IS NOT NULL
)
SELECT page.number, page.kind, page.at, page.job_id, page.subject, page.fence, page.data, {about} FROM (
    SELECT number, kind, at, :id AS job_id, subject, fence, data FROM (
        SELECT * FROM (
            SELECT seq * 1024 AS number, kind, at, subject, fence, data FROM event
            WHERE job_id = :id AND seq > :after / 1024 ORDER BY seq LIMIT :limit
        )
        UNION ALL
        SELECT * FROM bundled
    ) WHERE number > :after ORDER BY number LIMIT :limit
) AS page {looked_up} ORDER BY page.number;

-- name: prunable_events
-- The oldest removable rows, each once: those not about a job, all of a job deleted long ago, and those of attempts
-- pruned long ago, the first such pruning of each job. The row of the deletion or pruning has the times of the bundles
-- that may name the job, and for a pruning the last of the attempts.
WITH ripe AS MATERIALIZED (
    SELECT seq, at, job_id, CASE kind WHEN 'job.pruned' THEN fence END AS upto FROM event
    WHERE ((job_id IS NULL AND jobs IS NULL) OR kind = 'job.deleted' OR kind = 'job.pruned') AND at < :now - :age
        AND NOT EXISTS (SELECT 1 FROM json_each(times) AS late WHERE late.value >= :now - :age)
        AND CASE kind WHEN 'job.pruned' THEN NOT EXISTS (
            SELECT 1 FROM event AS first INDEXED BY event_deleted WHERE first.job_id = event.job_id
                AND first.times IS NOT NULL AND first.kind = 'job.pruned' AND first.seq < event.seq
        ) ELSE NOT EXISTS (SELECT 1 FROM job WHERE job.id = event.job_id)
            AND NOT EXISTS (SELECT 1 FROM event AS late WHERE late.job_id = event.job_id AND late.at >= :now - :age)
        END
    ORDER BY at, seq LIMIT :limit
)
SELECT NULL, seq, job_id, times, upto FROM (
    SELECT seq, job_id, NULL AS times, at AS turn, seq AS rank, NULL AS upto FROM ripe WHERE job_id IS NULL
    UNION ALL
    SELECT event.seq, event.job_id, event.times, ripe.at, ripe.seq, CASE event.kind WHEN 'job.pruned' THEN event.fence END
    FROM ripe CROSS JOIN event ON event.job_id = ripe.job_id
        AND event.seq <= CASE WHEN ripe.upto IS NULL THEN 9223372036854775807 ELSE ripe.seq END
    WHERE ripe.upto IS NULL OR event.fence <= ripe.upto
) GROUP BY seq ORDER BY min(turn), min(rank), seq LIMIT :limit;

-- name: hold_bundles
-- The bundles of these times, in order.
SELECT NULL, event.seq, event.fence, jobs FROM {input} AS input CROSS JOIN event ON event.at = input.at AND jobs IS NOT NULL
ORDER BY event.seq;

-- name: remove_events
-- Delete these rows, or shorten their bundles; with each the number of the newest removed event, so that readers that
-- lag can notice.
UPDATE feed_horizon SET revision = revision + 1, seq = max(seq, (SELECT max(number) FROM {input}));
UPDATE event SET jobs = input.jobs FROM {input} AS input WHERE event.seq = input.seq AND input.jobs IS NOT NULL;
DELETE FROM event WHERE seq IN (SELECT seq FROM {input} WHERE jobs IS NULL);
