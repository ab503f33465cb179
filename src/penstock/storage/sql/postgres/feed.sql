-- Statements of the feed port. A cursor is a snapshot: what is visible in it has been seen, whatever its number.
-- The key (xid, seq) serves every read: inner ORDER BY and OFFSET 0 keep the planner on it, whatever it believes.
-- Bundles are opened one by one in the order of their rows, so that a page ends with the last one that it needs.

-- let about: coalesce(attempt.number, CASE WHEN known.fence = page.fence THEN known.attempt END), CASE WHEN attempt.number IS NOT NULL THEN attempt.took WHEN known.fence = page.fence AND known.done_by IS NOT NULL THEN known.took END, known.source, known.schedule, known.expression
-- let facts_of_job: SELECT job.fence, job.attempt, job.done_by, job.finished_at - job.started_at AS took, definition.source, detail.schedule, schedule.expression FROM {schema}.job LEFT JOIN {schema}.definition ON definition.lane = job.lane LEFT JOIN {schema}.job_detail AS detail ON detail.id = job.id LEFT JOIN {schema}.schedule ON schedule.key = detail.schedule WHERE job.id = page.job_id OFFSET 0
-- let looked_up: LEFT JOIN LATERAL ({facts_of_job}) AS known ON true LEFT JOIN LATERAL (SELECT number, ended_at - started_at AS took FROM {schema}.attempt WHERE attempt.job_id = page.job_id AND attempt.fence = page.fence OFFSET 0) AS attempt ON true
-- let xmax_base: (SELECT pg_snapshot_xmax(base) FROM span)
-- let xmax_target: (SELECT pg_snapshot_xmax(target) FROM span)
-- let finished: pg_visible_in_snapshot(open.xid, pg_current_snapshot())

-- let of_pruned: CASE event.kind WHEN 'job.pruned' THEN event.job_id END
-- let of_deleted: CASE event.kind WHEN 'job.pruned' THEN NULL ELSE event.job_id END

-- name: feed_tip
-- This moment, and the number of removals from the feed.
SELECT revision, pg_current_snapshot()::text FROM {schema}.feed_horizon;

-- name: feed_origin
-- The moment before every event, and the number of removals from the feed.
SELECT revision, '1:1:' FROM {schema}.feed_horizon;

-- name: read_feed
-- Events that are not in the base and are in the target (without a target: committed by now), after a number, in order
-- of numbers. With each event, or alone: whether the cursor is valid, whether removed events are missing, the number of
-- removals, the number of rows examined, this moment.
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
rows AS MATERIALIZED (
    SELECT fresh.xid, fresh.seq FROM fresh CROSS JOIN span
    WHERE fresh.seq >= %(last)s::bigint / 1024 AND pg_visible_in_snapshot(fresh.xid, target)
    ORDER BY fresh.seq LIMIT %(limit)s::bigint + 1
),
page AS MATERIALIZED (
    SELECT event.seq * 1024 + place - 1 AS number, kind, at, told.job_id, subject, fence, data
    FROM rows CROSS JOIN LATERAL (
        SELECT * FROM {schema}.event WHERE event.xid = rows.xid AND event.seq = rows.seq OFFSET 0
    ) AS event
    CROSS JOIN unnest(coalesce(jobs, ARRAY[event.job_id])) WITH ORDINALITY AS told (job_id, place)
    WHERE event.seq * 1024 + place - 1 > %(last)s::bigint AND (jobs IS NULL OR told.job_id IS NOT NULL)
    LIMIT %(limit)s::bigint
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
    page.number, page.kind, page.at, page.job_id::text, page.subject, page.fence, page.data, {about}
FROM given CROSS JOIN missed LEFT JOIN page ON true {looked_up} ORDER BY page.number;

-- name: cut_feed
-- A target for a reader that lags far, so that it need not sort all missed events for each page. It ends with the
-- transaction of the row at `most`, and excludes what was written after the first row beyond: of two events of a job,
-- the later is written after the first one's transaction has ended, so the successors of excluded events are excluded
-- too. Null when nothing would remain. Beyond the edge only those transactions are checked that began when all up to
-- the edge had ended: later ones were written after all of these.
WITH span AS MATERIALIZED (SELECT %(base)s::text::pg_snapshot AS base, pg_current_snapshot() AS target),
edge AS MATERIALIZED (
    SELECT xid FROM {schema}.event WHERE xid >= {xmax_base} AND xid < {xmax_target}
    ORDER BY xid, seq OFFSET %(most)s::bigint LIMIT 1
),
calm AS MATERIALIZED (
    SELECT begun FROM (
        SELECT begun, ended FROM {schema}.event WHERE xid > (SELECT xid FROM edge) AND xid < {xmax_target}
        ORDER BY xid, seq OFFSET 0
    ) AS rest
    WHERE ended > (SELECT xid FROM edge) LIMIT 1
),
beyond AS MATERIALIZED (
    SELECT min(seq) AS seq FROM (
        SELECT seq FROM {schema}.event WHERE xid > (SELECT xid FROM edge)
            AND xid < least({xmax_target}, coalesce((SELECT begun FROM calm), {xmax_target})) ORDER BY xid, seq
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
-- The events of one job, in order: its own rows, and its places in the bundles of the times that its rows name.
WITH told_at AS MATERIALIZED (
    SELECT unnest(ARRAY[created_at, started_at, finished_at]) AS at FROM {schema}.job WHERE id = %(id)s::uuid
    UNION SELECT unnest(ARRAY[started_at, ended_at]) FROM {schema}.attempt WHERE job_id = %(id)s::uuid
    UNION SELECT unnest(times) FROM {schema}.event WHERE job_id = %(id)s::uuid AND times IS NOT NULL
)
SELECT page.number, page.kind, page.at, page.job_id::text, page.subject, page.fence, page.data, {about} FROM (
    SELECT number, kind, at, %(id)s::uuid AS job_id, subject, fence, data FROM (
        (
            SELECT seq * 1024 AS number, kind, at, subject, fence, data FROM {schema}.event
            WHERE job_id = %(id)s::uuid AND seq > %(after)s::bigint / 1024 ORDER BY seq LIMIT %(limit)s::bigint
        )
        UNION ALL
        SELECT seq * 1024 + place - 1, kind, told_at.at, NULL, fence, NULL
        FROM told_at CROSS JOIN LATERAL (
            SELECT seq, kind, fence, array_position(jobs, %(id)s::uuid) AS place FROM {schema}.event
            WHERE event.at = told_at.at AND jobs IS NOT NULL OFFSET 0
        ) AS bundle
    ) AS told WHERE number > %(after)s::bigint ORDER BY number LIMIT %(limit)s::bigint
) AS page {looked_up} ORDER BY page.number;

-- name: prunable_events
-- The oldest removable rows, each once: those not about a job, all of a job deleted long ago, and those of attempts
-- pruned long ago, the first such pruning of each job. The row of the deletion or pruning has the times of the bundles
-- that may name the job, and for a pruning the last of the attempts.
WITH clock AS (SELECT {now} - %(age)s::bigint AS horizon),
ripe AS MATERIALIZED (
    SELECT xid, seq, at, job_id, CASE kind WHEN 'job.pruned' THEN fence END AS upto FROM {schema}.event
    WHERE ((job_id IS NULL AND jobs IS NULL) OR kind = 'job.deleted' OR kind = 'job.pruned')
        AND at < (SELECT horizon FROM clock)
        AND NOT EXISTS (SELECT FROM unnest(times) AS late (at) WHERE late.at >= (SELECT horizon FROM clock))
        AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = {of_deleted})
        AND NOT EXISTS (
            SELECT FROM {schema}.event AS late WHERE late.job_id = {of_deleted} AND late.at >= (SELECT horizon FROM clock)
        )
        AND NOT EXISTS (
            SELECT FROM {schema}.event AS first WHERE first.job_id = {of_pruned} AND first.times IS NOT NULL
                AND first.kind = 'job.pruned' AND first.seq < event.seq
        )
    ORDER BY at, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
SELECT xid::text, seq, job_id::text, array_to_json(times)::text, upto FROM (
    SELECT xid, seq, job_id, NULL AS times, at AS turn, seq AS rank, NULL AS upto FROM ripe WHERE job_id IS NULL
    UNION ALL
    SELECT event.xid, event.seq, event.job_id, event.times, ripe.at, ripe.seq,
        CASE event.kind WHEN 'job.pruned' THEN event.fence END
    FROM ripe CROSS JOIN LATERAL (
        SELECT xid, seq, job_id, times, kind, fence FROM {schema}.event WHERE event.job_id = ripe.job_id
            AND event.seq <= CASE WHEN ripe.upto IS NULL THEN 9223372036854775807 ELSE ripe.seq END OFFSET 0
    ) AS event
    WHERE ripe.upto IS NULL OR event.fence <= ripe.upto
) AS doomed GROUP BY xid, seq, job_id, times, upto ORDER BY min(turn), min(rank), seq LIMIT %(limit)s;

-- name: hold_bundles
-- Lock the bundles of these times, in order.
SELECT xid::text, seq, fence, array_to_json(jobs)::text FROM {schema}.event
WHERE at = ANY(%(at)s::bigint[]) AND jobs IS NOT NULL ORDER BY seq FOR UPDATE;

-- name: remove_events
-- Delete these rows, or shorten their bundles; with each the number of the newest removed event, so that readers that
-- lag can notice.
WITH input AS (
    SELECT * FROM unnest(%(xid)s::xid8[], %(seq)s::bigint[], %(number)s::bigint[], %(jobs)s::text[])
        AS input (xid, seq, number, jobs)
),
removed AS (
    DELETE FROM {schema}.event USING input
    WHERE event.xid = input.xid AND event.seq = input.seq AND input.jobs IS NULL
),
shrunk AS (
    UPDATE {schema}.event SET jobs = ARRAY(
        SELECT id::uuid FROM json_array_elements_text(input.jobs::json) WITH ORDINALITY AS rest (id, place) ORDER BY place
    )
    FROM input WHERE event.xid = input.xid AND event.seq = input.seq AND input.jobs IS NOT NULL
)
UPDATE {schema}.feed_horizon AS horizon SET revision = revision + 1,
    xid = greatest(horizon.xid, newest.xid), seq = greatest(horizon.seq, newest.number)
FROM (SELECT max(xid) AS xid, max(number) AS number FROM input) AS newest;
