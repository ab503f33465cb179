-- Statements of the feed port. There is one writer at a time and no number is given twice, so a cursor is a seq.

-- let valid: :base NOT GLOB '*[^0-9]*' AND length(:base) BETWEEN 1 AND 18 AND (:target IS NULL OR :target NOT GLOB '*[^0-9]*' AND length(:target) BETWEEN 1 AND 18)
-- let tip: coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)
-- let seen: max(CAST(:base AS INTEGER), :last)

-- name: feed_tip
-- This moment, and how often events have been removed.
SELECT revision, CAST({tip} AS TEXT) FROM feed_horizon;

-- name: feed_origin
-- The moment before every event, and how often events have been removed.
SELECT revision, '0' FROM feed_horizon;

-- name: read_feed
-- What the base has not seen and the target has (without a target: this moment), behind a seq, in order of seq.
-- In front of each event, or alone: whether the cursor is one, whether removed events are missing, how often
-- events have been removed, how many events were looked at (none: the table is in order), this moment.
SELECT {valid}, {seen} > {tip} OR (horizon.revision <> :revision AND horizon.seq > {seen}), horizon.revision, 0,
    CAST({tip} AS TEXT), event.seq, event.kind, event.at, event.job_id, event.subject, event.fence, event.data
FROM feed_horizon AS horizon LEFT JOIN event ON {valid} AND event.seq IN (
    SELECT seq FROM event WHERE seq > {seen} AND seq <= coalesce(CAST(:target AS INTEGER), {tip}) ORDER BY seq LIMIT :limit
)
ORDER BY event.seq;

-- name: cut_feed
-- A target for a reader that is far behind: here it needs none.
SELECT NULL;

-- name: job_events
-- The events of one job, in order.
SELECT seq, kind, at, job_id, subject, fence, data FROM event
WHERE job_id = :id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: prunable_events
-- The oldest events that may go, each once: those about no job, and all of a job whose deletion was told long ago.
WITH ripe AS MATERIALIZED (
    SELECT seq, at, job_id FROM event
    WHERE (job_id IS NULL OR kind = 'job.deleted') AND at < :now - :age
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = event.job_id)
        AND NOT EXISTS (SELECT 1 FROM event AS late WHERE late.job_id = event.job_id AND late.at >= :now - :age)
    ORDER BY at, seq LIMIT :limit
)
SELECT NULL, seq FROM (
    SELECT seq, at AS turn, seq AS rank FROM ripe WHERE job_id IS NULL
    UNION ALL
    SELECT event.seq, ripe.at, ripe.seq FROM ripe CROSS JOIN event ON event.job_id = ripe.job_id
) GROUP BY seq ORDER BY min(turn), min(rank), seq LIMIT :limit;

-- name: remove_events
-- Remove these events; readers that had not come so far can learn it.
UPDATE feed_horizon SET revision = revision + 1, seq = max(seq, (SELECT max(seq) FROM {input}));
DELETE FROM event WHERE seq IN (SELECT seq FROM {input});
SELECT count(*) FROM {input};
