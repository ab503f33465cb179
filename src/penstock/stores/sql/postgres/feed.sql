-- Statements of the feed port. A cursor is a snapshot: what is visible in it has been seen, whatever its number.
-- The key (xid, seq) serves every read: inner ORDER BY and OFFSET 0 keep the planner on it, whatever it believes.

-- let xmax_base: (SELECT pg_snapshot_xmax(base) FROM span)
-- let xmax_target: (SELECT pg_snapshot_xmax(target) FROM span)
-- let finished: pg_visible_in_snapshot(open.xid, pg_current_snapshot())

-- name: feed_tip
-- This moment, and how often events have been removed.
SELECT revision, pg_current_snapshot()::text FROM {schema}.feed_horizon;

-- name: feed_origin
-- The moment before every event, and how often events have been removed.
SELECT revision, '1:1:' FROM {schema}.feed_horizon;

-- name: read_feed
-- What the base has not seen and the target has (without a target: this moment), behind a seq, in order of seq.
-- In front of each event, or alone: whether the cursor is one, whether removed events are missing, how often
-- events have been removed, how many events were looked at, this moment.
WITH given AS MATERIALIZED (
    SELECT base, target, base LIKE '%%:%%' AND target LIKE '%%:%%' AS valid
    FROM (SELECT %(base)s::text AS base, coalesce(%(target)s::text, pg_current_snapshot()::text) AS target) AS texts
),
span AS MATERIALIZED (SELECT base::pg_snapshot AS base, target::pg_snapshot AS target FROM given WHERE valid),
fresh AS MATERIALIZED (
    (
        SELECT xid, seq FROM {schema}.event WHERE xid >= {xmax_base} AND xid < {xmax_target}
        ORDER BY xid, seq LIMIT %(most)s::bigint
    )
    UNION ALL
    SELECT open.xid, late.seq FROM (SELECT pg_snapshot_xip(base) AS xid FROM span) AS open
    CROSS JOIN LATERAL (SELECT seq FROM {schema}.event WHERE event.xid = open.xid OFFSET 0) AS late
),
page AS MATERIALIZED (
    SELECT fresh.xid, fresh.seq FROM fresh CROSS JOIN span
    WHERE fresh.seq > %(last)s::bigint AND pg_visible_in_snapshot(fresh.xid, target)
    ORDER BY fresh.seq LIMIT %(limit)s::bigint
),
missed AS MATERIALIZED (
    SELECT horizon.revision, pg_snapshot_xmax(base) > pg_snapshot_xmax(pg_current_snapshot()) OR (
        horizon.revision <> %(revision)s::bigint
        AND (horizon.xid >= pg_snapshot_xmax(base) OR EXISTS (
            SELECT FROM pg_snapshot_xip(base) AS open (xid) WHERE open.xid <= horizon.xid AND {finished}
        ))
        AND (horizon.seq > %(last)s::bigint OR horizon.xid >= pg_snapshot_xmax(target) OR EXISTS (
            SELECT FROM pg_snapshot_xip(target) AS open (xid) WHERE open.xid <= horizon.xid AND {finished}
        ))
    ) AS gone
    FROM {schema}.feed_horizon AS horizon LEFT JOIN span ON true
)
SELECT given.valid, missed.gone, missed.revision, (SELECT count(*) FROM fresh), pg_current_snapshot()::text,
    event.seq, event.kind, event.at, event.job_id::text, event.subject, event.fence, event.data
FROM given CROSS JOIN missed LEFT JOIN page ON true
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.event WHERE event.xid = page.xid AND event.seq = page.seq OFFSET 0
) AS event ON true ORDER BY page.seq;

-- name: cut_feed
-- A target for a reader that is far behind, so that it need not sort all that it missed again for each page.
-- It ends with the transaction of the event at `most`, and leaves out what was written after the first event beyond:
-- of two events of a job the later one is written when the first one's transaction has ended, so whatever must
-- follow an event that is left out is left out too. Null when nothing would remain.
WITH span AS MATERIALIZED (SELECT %(base)s::text::pg_snapshot AS base, pg_current_snapshot() AS target),
edge AS MATERIALIZED (
    SELECT xid FROM {schema}.event WHERE xid >= {xmax_base} AND xid < {xmax_target}
    ORDER BY xid, seq OFFSET %(most)s::bigint LIMIT 1
),
beyond AS MATERIALIZED (
    SELECT min(seq) AS seq FROM (
        SELECT seq FROM {schema}.event WHERE xid > (SELECT xid FROM edge) AND xid < {xmax_target} ORDER BY xid, seq
    ) AS rest
),
inside AS MATERIALIZED (
    SELECT xid, max(seq) AS seq FROM (
        SELECT xid, seq FROM {schema}.event WHERE xid >= {xmax_base} AND xid <= (SELECT xid FROM edge) ORDER BY xid, seq
    ) AS near GROUP BY xid
    UNION ALL
    SELECT open.xid, max(late.seq) FROM (SELECT pg_snapshot_xip(base) AS xid FROM span) AS open
    CROSS JOIN LATERAL (SELECT seq FROM {schema}.event WHERE event.xid = open.xid OFFSET 0) AS late GROUP BY open.xid
),
left_out AS MATERIALIZED (
    SELECT xid FROM inside WHERE seq > (SELECT seq FROM beyond)
    UNION
    SELECT open.xid FROM (SELECT pg_snapshot_xip(target) AS xid FROM span) AS open WHERE open.xid <= (SELECT xid FROM edge)
)
SELECT CASE WHEN EXISTS (SELECT FROM inside WHERE xid NOT IN (SELECT xid FROM left_out))
    THEN coalesce((SELECT min(xid)::text FROM left_out), after) || ':' || after || ':'
        || coalesce((SELECT string_agg(xid::text, ',' ORDER BY xid) FROM left_out), '')
END
FROM (SELECT (xid::text::bigint + 1)::text AS after FROM edge) AS cut;

-- name: job_events
-- The events of one job, in order.
SELECT seq, kind, at, job_id::text, subject, fence, data FROM {schema}.event
WHERE job_id = %(id)s::uuid AND seq > %(after)s::bigint ORDER BY seq LIMIT %(limit)s;

-- name: prunable_events
-- The oldest events that may go, each once: those about no job, and all of a job whose deletion was told long ago.
WITH clock AS (SELECT {now} - %(age)s::bigint AS horizon),
ripe AS MATERIALIZED (
    SELECT xid, seq, at, job_id FROM {schema}.event
    WHERE (job_id IS NULL OR kind = 'job.deleted') AND at < (SELECT horizon FROM clock)
        AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = event.job_id)
        AND NOT EXISTS (
            SELECT FROM {schema}.event AS late WHERE late.job_id = event.job_id AND late.at >= (SELECT horizon FROM clock)
        )
    ORDER BY at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
SELECT xid::text, seq FROM (
    SELECT xid, seq, at AS turn, seq AS rank FROM ripe WHERE job_id IS NULL
    UNION ALL
    SELECT event.xid, event.seq, ripe.at, ripe.seq FROM ripe JOIN {schema}.event ON event.job_id = ripe.job_id
) AS doomed GROUP BY xid, seq ORDER BY min(turn), min(rank), seq LIMIT %(limit)s;

-- name: remove_events
-- Remove these events; readers that had not come so far can learn it.
WITH removed AS (
    DELETE FROM {schema}.event USING unnest(%(xid)s::xid8[], %(seq)s::bigint[]) AS input (xid, seq)
    WHERE event.xid = input.xid AND event.seq = input.seq RETURNING event.xid, event.seq
),
newest AS (SELECT max(xid) AS xid, max(seq) AS seq FROM removed),
marked AS (
    UPDATE {schema}.feed_horizon AS horizon SET revision = revision + 1,
        xid = greatest(horizon.xid, newest.xid), seq = greatest(horizon.seq, newest.seq)
    FROM newest WHERE newest.seq IS NOT NULL
)
SELECT count(*) FROM removed;
