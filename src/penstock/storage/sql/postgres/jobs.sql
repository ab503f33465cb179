-- Statements of the jobs port: claiming, settling, and what attempts write meanwhile.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.
-- Whether a worker holds a job is asked in a form that no index serves: jobs are found by their ids, never by a worker.

-- let ageing: coalesce((SELECT value::bigint FROM {schema}.setting WHERE name = 'ageing'), 600000000)
-- let after: CASE job.status WHEN {cancelling} THEN {cancelled} ELSE input.status END
-- let ends: (job.status = {cancelling} OR input.status IN {ended})
-- let put_off: job.status = {running} AND input.status = {scheduled}
-- let put_back: job.status = {running} AND input.status = {queued}
-- let has_token: job.rate_paid OR job.limit_key IS NULL
-- let held: job.fence = input.fence AND job.worker IS NOT DISTINCT FROM input.worker AND job.status IN {live}
-- let held_by: fence = %(fence)s::integer AND worker IS NOT DISTINCT FROM %(worker)s::uuid AND status IN {live}
-- let of_one: CASE WHEN cardinality(ids) = 1 THEN ids[1] END
-- let of_many: CASE WHEN cardinality(ids) > 1 THEN ids[place:place + 999] END
-- let places: generate_series(1, cardinality(ids), 1000) AS place
-- let newest_try: NOT EXISTS (SELECT FROM {schema}.phase AS later WHERE later.job_id = phase.job_id AND later.name = phase.name AND later.fence > phase.fence)
-- let kept: coalesce(kinds.usual, kinds.kept[width_bucket(job.lane, kinds.lanes)])
-- let bounds: '{1000,2500,5000,10000,25000,50000,100000,250000,500000,1000000,2500000,5000000,10000000,30000000,60000000,120000000,300000000,600000000,1800000000,3600000000,14400000000,86400000000}'::bigint[]
-- let live_worker: SELECT 1 FROM {schema}.worker WHERE id = %(worker)s::uuid AND ended IS NULL AND lease_until > (SELECT now FROM clock) FOR KEY SHARE
-- let system_pause: SELECT FROM {schema}.control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > (SELECT now FROM clock))

-- let to_the_worker:
claimed AS (
    UPDATE {schema}.job SET
        status = {running}, fence = fence + 1, attempt = attempt + 1, worker = %(worker)s::uuid, rate_paid = false,
        started_at = CASE WHEN %(start)s::boolean AND lost = 0 THEN now END, updated_at = now
    FROM clock WHERE job.id = ANY(ARRAY(SELECT id FROM taken))
    RETURNING job.id, job.lane, fence, attempt, max_attempts, lost, rank, updated_at, limit_key,
        greatest(0, updated_at - queued_at) AS waited
),
told AS (
    INSERT INTO {schema}.event (at, kind, fence, job_id, jobs) SELECT at, 'job.started', fence, {of_one}, {of_many}
    FROM (
        SELECT min(updated_at) AS at, fence, array_agg(id) AS ids FROM claimed
        WHERE %(start)s::boolean AND lost = 0 GROUP BY fence
    ) AS batch CROSS JOIN {places}
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n, took, lengths)
    SELECT lane, minute, step.status, step.n, step.took, step.lengths
    FROM (
        SELECT lane, min(updated_at) / 60000000 AS minute, count(*) AS n, sum(waited) AS took,
            string_agg(chr(65 + width_bucket(waited - 1, {bounds})), '') AS lengths
        FROM claimed GROUP BY lane
    ) AS sums
    CROSS JOIN LATERAL (VALUES ({queued}, -n, 0, NULL), ({running}, n, sums.took, sums.lengths)) AS step (status, n, took, lengths)
)
(
    SELECT claimed.id::text, claimed.lane, fence, attempt, max_attempts, lost, params, reference_type, reference_id,
        traceparent, schedule, scheduled_for, rank, tags, limit_key
    FROM claimed FULL JOIN (
        SELECT id, params, reference_type, reference_id, traceparent, schedule, scheduled_for, tags
        FROM {schema}.job_detail WHERE id = ANY(ARRAY(SELECT id FROM claimed))
    ) AS detail ON detail.id = claimed.id
    ORDER BY rank, claimed.id
)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE NOT EXISTS (SELECT FROM alive)

-- name: promote
-- Move due jobs to the queue. They are found by key, one by one: the planner overestimates them and would scan all
-- jobs.
WITH clock AS (SELECT {now} AS now),
due AS MATERIALIZED (
    SELECT id FROM {schema}.job WHERE status = {scheduled} AND due_at <= (SELECT now FROM clock)
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
moved AS (
    UPDATE {schema}.job SET status = {queued}, queued_at = now, updated_at = now, blocked = limit_key IS NOT NULL AND NOT rate_paid,
        rate_paid = false, rank = due_at - priority * {ageing}
    FROM clock WHERE job.id = ANY(ARRAY(SELECT id FROM due))
    RETURNING job.id, lane, limit_key, blocked, updated_at
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n)
    SELECT lane, min(updated_at) / 60000000, step.status, step.n * count(*)
    FROM moved CROSS JOIN (VALUES ({scheduled}, -1), ({queued}, 1)) AS step (status, n) GROUP BY lane, step.status, step.n
)
SELECT id::text, CASE WHEN blocked THEN limit_key END FROM moved;

-- name: next_due
-- Time until the next scheduled job is due; null when a concurrency key has a note.
(SELECT 0::bigint FROM {schema}.key_note LIMIT 1)
UNION ALL
(SELECT due_at - {now} FROM {schema}.job WHERE status = {scheduled} ORDER BY due_at, id LIMIT 1)
LIMIT 1;

-- name: claim
-- Give the best-ranked jobs of these lanes to a worker with a live lease. Each lane gives at most its quota; where jobs
-- are paid for by key, only paid ones. A read without locks finds how many of each lane are among the best; that many
-- are taken, or what others leave. The lane with the first job is read furthest, the others less; if one gave
-- everything that was read, nothing ranked after that is taken from the others. A job that was lost before is not
-- recorded as started: it must wait to run alone. Taken jobs are found by key, one by one: with a long queue the
-- planner would scan all jobs. A row of nulls: the lease has ended.
WITH clock AS (SELECT {now} AS now),
alive AS MATERIALIZED ({live_worker}),
lanes AS MATERIALIZED (
    SELECT wanted.lane, wanted.quota, wanted.paid, wanted.after_rank, wanted.after_id
    FROM unnest(
        %(lane)s::integer[], %(quota)s::integer[], %(granted)s::boolean[], %(paid)s::boolean[],
        %(after_rank)s::bigint[], %(after_id)s::uuid[]
    ) AS wanted (lane, quota, granted, paid, after_rank, after_id)
    JOIN {schema}.definition ON definition.lane = wanted.lane
    JOIN {schema}.control ON control.key = definition.key
    WHERE EXISTS (SELECT FROM alive)
        AND (wanted.granted OR (control.concurrency = 0 AND control.rate_count = 0))
        AND (control.pause_at IS NULL OR control.pause_until <= (SELECT now FROM clock))
        AND NOT EXISTS ({system_pause})
),
heads AS MATERIALIZED (
    SELECT lanes.*, CASE WHEN quota < %(limit)s::integer THEN quota ELSE greatest(8, %(limit)s::integer / (
        1 + count(*) FILTER (WHERE quota >= %(limit)s::integer)
            OVER (ORDER BY head.rank ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )) END AS depth
    FROM lanes CROSS JOIN LATERAL (
        SELECT rank FROM {schema}.job WHERE job.lane = lanes.lane AND status = {queued} AND NOT blocked
            AND (rank, id) > (lanes.after_rank, lanes.after_id) AND (NOT lanes.paid OR {has_token})
        ORDER BY rank, id LIMIT 1
    ) AS head
),
seen AS MATERIALIZED (
    SELECT heads.lane, job.rank, job.id, depth < quota AND n = depth AS stopped FROM heads CROSS JOIN LATERAL (
        SELECT rank, id, row_number() OVER (ORDER BY rank, id) AS n FROM {schema}.job
        WHERE job.lane = heads.lane AND status = {queued} AND NOT blocked
            AND (rank, id) > (heads.after_rank, heads.after_id) AND (NOT heads.paid OR {has_token})
        ORDER BY rank, id LIMIT heads.depth
    ) AS job
    WHERE (SELECT count(*) FROM heads) > 1
),
shares AS MATERIALIZED (
    SELECT lane, count(*) AS n FROM (
        SELECT seen.lane FROM seen
        LEFT JOIN (SELECT rank, id FROM seen WHERE stopped ORDER BY rank, id LIMIT 1) AS edge ON true
        WHERE edge.id IS NULL OR (seen.rank, seen.id) <= (edge.rank, edge.id)
        ORDER BY seen.rank, seen.id LIMIT %(limit)s
    ) AS best GROUP BY lane
    UNION ALL
    SELECT lane, least(quota, %(limit)s) FROM heads WHERE (SELECT count(*) FROM heads) = 1
),
taken AS MATERIALIZED (
    SELECT job.id FROM shares JOIN heads USING (lane) CROSS JOIN LATERAL (
        SELECT id FROM {schema}.job WHERE job.lane = heads.lane AND status = {queued} AND NOT blocked
            AND (rank, id) > (heads.after_rank, heads.after_id) AND (NOT heads.paid OR {has_token})
        ORDER BY rank, id LIMIT shares.n FOR UPDATE SKIP LOCKED
    ) AS job
),
{to_the_worker};

-- name: claim_lane
-- Give the best-ranked jobs of one lane to a worker, as with `claim`, for a definition without limits.
WITH clock AS (SELECT {now} AS now),
alive AS MATERIALIZED ({live_worker}),
taken AS MATERIALIZED (
    SELECT id FROM {schema}.job
    WHERE lane = %(lane)s::integer AND status = {queued} AND NOT blocked
        AND (rank, id) > (%(after_rank)s::bigint, %(after_id)s::uuid)
        AND EXISTS (SELECT FROM alive)
        AND EXISTS (
            SELECT FROM {schema}.definition JOIN {schema}.control USING (key)
            WHERE definition.lane = %(lane)s::integer AND control.concurrency = 0 AND control.rate_count = 0
                AND (control.pause_at IS NULL OR control.pause_until <= (SELECT now FROM clock))
        )
        AND NOT EXISTS ({system_pause})
    ORDER BY rank, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
{to_the_worker};

-- name: ready_job
-- Lane and rank of a job that is queued and not blocked.
SELECT lane, rank FROM {schema}.job WHERE id = %(id)s::uuid AND status = {queued} AND NOT blocked;

-- name: claim_job
-- Give this job to a worker, as with `claim`; `granted`: its definition has a limit with room.
WITH clock AS (SELECT {now} AS now),
alive AS MATERIALIZED ({live_worker}),
taken AS MATERIALIZED (
    SELECT id FROM {schema}.job
    WHERE id = %(id)s::uuid AND status = {queued} AND NOT blocked AND (NOT %(paid)s::boolean OR {has_token})
        AND EXISTS (SELECT FROM alive)
        AND EXISTS (
            SELECT FROM {schema}.definition JOIN {schema}.control USING (key)
            WHERE definition.lane = job.lane
                AND (%(granted)s::boolean OR (control.concurrency = 0 AND control.rate_count = 0))
                AND (control.pause_at IS NULL OR control.pause_until <= (SELECT now FROM clock))
        )
        AND NOT EXISTS ({system_pause})
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
{to_the_worker};

-- name: claimable
-- Whether a job of these lanes can be claimed that was created by then, or whose parent was.
SELECT 1 FROM {schema}.job JOIN {schema}.definition ON definition.lane = job.lane
JOIN {schema}.control ON control.key = definition.key
WHERE job.lane = ANY(%(lanes)s::integer[]) AND job.status = {queued} AND NOT job.blocked
    AND (control.pause_at IS NULL OR control.pause_until <= {now})
    AND NOT EXISTS (
        SELECT FROM {schema}.control AS system WHERE system.key = '*'
            AND system.pause_at IS NOT NULL AND (system.pause_until IS NULL OR system.pause_until > {now})
    )
    AND (job.created_at <= %(created_by)s::bigint OR EXISTS (
        SELECT FROM {schema}.job_detail JOIN {schema}.job AS parent ON parent.id = job_detail.parent
        WHERE job_detail.id = job.id AND parent.created_at <= %(created_by)s::bigint
    ))
LIMIT 1;

-- name: start
-- Record that claimed attempts begin.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(%(id)s::uuid[], %(fence)s::integer[], %(worker)s::uuid[]) AS input (id, fence, worker)
),
begun AS (
    UPDATE {schema}.job SET started_at = now, updated_at = now FROM input CROSS JOIN clock
    WHERE job.id = input.id AND {held} AND started_at IS NULL
    RETURNING job.id, job.fence, job.worker, started_at
),
told AS (
    INSERT INTO {schema}.event (at, kind, fence, job_id, jobs) SELECT at, 'job.started', fence, {of_one}, {of_many}
    FROM (SELECT min(started_at) AS at, fence, array_agg(id) AS ids FROM begun GROUP BY fence) AS batch CROSS JOIN {places}
)
SELECT id::text, fence, worker::text FROM begun
UNION ALL
SELECT job.id::text, job.fence, job.worker::text FROM {schema}.job JOIN input ON job.id = input.id AND {held}
WHERE started_at IS NOT NULL;

-- name: settle
-- End attempts where the worker still holds the job under that fence; a cancelling job becomes cancelled.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(
        %(id)s::uuid[], %(fence)s::integer[], %(status)s::smallint[], %(delay)s::bigint[],
        %(attempt_back)s::smallint[], %(lost)s::smallint[], %(kind)s::text[], %(event_data)s::text[],
        %(cause)s::text[], %(result)s::text[], %(error_type)s::text[], %(error)s::text[], %(traceback)s::text[],
        %(fingerprint)s::text[], %(exit_code)s::integer[], %(signal)s::integer[], %(peak_memory)s::bigint[],
        %(cpu_seconds)s::double precision[], %(note)s::text[], %(data)s::text[]
    ) AS input (
        id, fence, status, delay, attempt_back, lost, kind, event_data, cause, result, error_type, error,
        traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds, note, data
    )
),
ended AS (
    UPDATE {schema}.job SET
        status = {after}, worker = NULL, updated_at = now,
        attempt = job.attempt - input.attempt_back, lost = input.lost,
        blocked = {put_back} AND limit_key IS NOT NULL,
        due_at = CASE WHEN {put_off} THEN now + input.delay ELSE due_at END,
        rank = CASE WHEN {put_off} THEN now + input.delay - priority * {ageing} ELSE rank END,
        queued_at = CASE WHEN {put_back} THEN now ELSE queued_at END,
        finished_at = CASE WHEN {ends} THEN now END,
        stale_at = CASE WHEN {ends} THEN now + definition.stale_after END,
        retire_at = CASE WHEN {ends} THEN now + definition.stale_after END
    FROM input CROSS JOIN clock CROSS JOIN {schema}.definition
    WHERE job.id = input.id AND definition.lane = job.lane AND job.fence = input.fence
        AND job.worker IS NOT DISTINCT FROM %(worker)s::uuid AND job.status IN {live}
    RETURNING job.id, job.fence, job.lane, job.status, job.attempt + input.attempt_back AS number, started_at,
        job.updated_at, limit_key, definition.key, definition.hooked, input.cause AS ended_by,
        CASE WHEN input.attempt_back = 0 AND input.cause <> 'lost' THEN greatest(0, job.updated_at - coalesce(started_at, job.updated_at)) END AS ran
),
tried AS (
    INSERT INTO {schema}.attempt (
        job_id, fence, number, status, cause, worker, started_at, ended_at, result, error_type, error, traceback,
        fingerprint, exit_code, signal, peak_memory, cpu_seconds
    )
    SELECT ended.id, ended.fence, number, ended.status, cause, %(worker)s::uuid, started_at, updated_at, result,
        error_type, error, traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
    FROM ended JOIN input ON input.id = ended.id
),
asked AS (
    INSERT INTO {schema}.review (job_id, fence, note, data, result, asked_at)
    SELECT ended.id, ended.fence, note, data, result, updated_at FROM ended JOIN input ON input.id = ended.id
    WHERE ended.status = {review_needed}
),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, fence, data)
    SELECT updated_at, CASE ended.status WHEN {cancelled} THEN 'job.cancelled' ELSE kind END, ended.id, ended.fence, event_data
    FROM ended JOIN input ON input.id = ended.id
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n, took, lengths)
    SELECT lane, min(updated_at) / 60000000, step.status, step.n * count(*),
        coalesce(sum(ran) FILTER (WHERE step.n > 0), 0),
        string_agg(CASE ended_by WHEN 'lost' THEN '~' ELSE chr(65 + width_bucket(ran - 1, {bounds})) END, '')
            FILTER (WHERE step.n > 0)
    FROM ended CROSS JOIN LATERAL (VALUES (CASE ended.status WHEN {cancelled} THEN {cancelling} ELSE {running} END, -1), (ended.status, 1)) AS step (status, n)
    GROUP BY lane, step.status, step.n
)
SELECT id::text, fence, status, limit_key, key, lane, hooked FROM ended;

-- name: settle_done
-- End successful attempts with one fence that need no other write: the common case, in few columns. The first row has
-- the number of ended attempts; others follow where more is to do, and all of them when some were not ended. When this
-- is the whole transaction (`alone`), jobs with a concurrency key are left out, and all jobs if there are hooks. A
-- success without result changes only the job's own row, unless it was being cancelled. Retention periods are looked up
-- once for each lane, by binary search where they differ. A full join is never a nested loop, whatever the planner
-- expects.
WITH clock AS (SELECT {now} AS now),
kinds AS MATERIALIZED (
    SELECT array_agg(lane ORDER BY lane) AS lanes, array_agg(stale_after ORDER BY lane) AS kept,
        array_agg(lane) FILTER (WHERE hooked) AS hooked,
        CASE WHEN min(stale_after) = max(stale_after) THEN min(stale_after) END AS usual
    FROM {schema}.definition WHERE lane = ANY(%(lanes)s::integer[])
),
ended AS (
    UPDATE {schema}.job SET
        status = CASE job.status WHEN {cancelling} THEN {cancelled} ELSE {succeeded} END, worker = NULL, lost = 0, updated_at = now, finished_at = now,
        done_by = CASE WHEN %(nothing)s::boolean AND job.status = {running} THEN %(worker)s::uuid END,
        stale_at = now + {kept}, retire_at = now + {kept}
    FROM clock CROSS JOIN kinds
    WHERE job.id = ANY(%(id)s::uuid[]) AND {held_by}
        AND (NOT %(alone)s::boolean OR (limit_key IS NULL AND kinds.hooked IS NULL))
    RETURNING job.id, job.fence, job.lane, job.status, job.attempt, started_at, job.updated_at, limit_key, done_by,
        greatest(0, job.updated_at - coalesce(started_at, job.updated_at)) AS ran
),
tried AS (
    INSERT INTO {schema}.attempt (
        job_id, fence, number, status, cause, worker, started_at, ended_at, result, exit_code, peak_memory, cpu_seconds
    )
    SELECT ended.id, fence, attempt, status, 'returned', %(worker)s::uuid, started_at, updated_at,
        CASE WHEN %(nothing)s::boolean THEN 'null' ELSE result END, exit_code, peak_memory, cpu_seconds
    FROM ended FULL JOIN (
        SELECT * FROM unnest(
            %(id)s::uuid[], %(result)s::text[], %(exit_code)s::integer[], %(peak_memory)s::bigint[],
            %(cpu_seconds)s::double precision[]
        ) AS input (id, result, exit_code, peak_memory, cpu_seconds) WHERE NOT %(nothing)s::boolean
    ) AS input ON input.id = ended.id
    WHERE coalesce(ended.fence, 0) > 0 AND done_by IS NULL
),
told AS (
    INSERT INTO {schema}.event (at, kind, fence, job_id, jobs)
    SELECT at, CASE status WHEN {cancelled} THEN 'job.cancelled' ELSE 'job.succeeded' END, fence, {of_one}, {of_many}
    FROM (SELECT min(updated_at) AS at, status, fence, array_agg(id) AS ids FROM ended GROUP BY status, fence) AS batch
    CROSS JOIN {places}
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n, took, lengths)
    SELECT lane, minute, step.status, step.n, step.took, step.lengths
    FROM (
        SELECT lane, status, min(updated_at) / 60000000 AS minute, count(*) AS n, sum(ran) AS took,
            string_agg(chr(65 + width_bucket(ran - 1, {bounds})), '') AS lengths
        FROM ended GROUP BY lane, status
    ) AS sums
    CROSS JOIN LATERAL (
        VALUES (CASE sums.status WHEN {cancelled} THEN {cancelling} ELSE {running} END, -n, 0, NULL), (sums.status, n, sums.took, sums.lengths)
    ) AS step (status, n, took, lengths)
)
SELECT NULL, count(*)::integer, NULL, NULL, NULL, NULL, NULL FROM ended
UNION ALL
SELECT id::text, fence, status, limit_key, key, ended.lane, hooked
FROM ended JOIN {schema}.definition ON definition.lane = ended.lane
WHERE limit_key IS NOT NULL OR ended.lane = ANY((SELECT hooked FROM kinds)::integer[])
    OR (SELECT count(*) FROM ended) < %(count)s::integer;

-- name: lanes_of
-- The lanes of these jobs.
SELECT DISTINCT lane FROM {schema}.job WHERE id = ANY(%(id)s::uuid[]);

-- name: find_attempts
-- The recorded ones of these attempts, with their causes.
WITH input AS (
    SELECT * FROM unnest(%(id)s::uuid[], %(fence)s::integer[], %(worker)s::uuid[]) AS input (id, fence, worker)
)
SELECT attempt.job_id::text, attempt.fence, attempt.cause FROM {schema}.attempt
JOIN input ON attempt.job_id = input.id AND attempt.fence = input.fence AND attempt.worker = input.worker
UNION ALL
SELECT job.id::text, job.fence, 'returned' FROM {schema}.job
JOIN input ON job.id = input.id AND job.fence = input.fence AND job.done_by = input.worker;

-- name: save_progress
-- Save progress of attempts; return those that still hold their job.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(
        %(id)s::uuid[], %(fence)s::integer[], %(worker)s::uuid[], %(percent)s::double precision[], %(message)s::text[],
        %(phase)s::text[]
    ) AS input (id, fence, worker, percent, message, phase)
),
held AS MATERIALIZED (
    SELECT job.id, job.fence, job.worker, percent, message, phase, now FROM {schema}.job JOIN input ON job.id = input.id CROSS JOIN clock
    WHERE {held} ORDER BY job.id FOR SHARE OF job
),
saved AS (
    INSERT INTO {schema}.progress AS known (job_id, fence, percent, message, phase, updated_at)
    SELECT id, fence, percent, message, phase, now FROM held
    ON CONFLICT (job_id) DO UPDATE SET fence = excluded.fence, percent = excluded.percent,
        message = coalesce(excluded.message, CASE WHEN known.fence = excluded.fence THEN known.message END),
        phase = coalesce(excluded.phase, CASE WHEN known.fence = excluded.fence THEN known.phase END),
        updated_at = excluded.updated_at
),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, fence, data)
    SELECT now, 'job.progress', id, fence,
        json_build_object('percent', percent, 'message', message, 'phase', phase)::text FROM held
)
SELECT id::text, fence, worker::text FROM held;

-- name: hold_attempt
-- Lock the job of a live attempt.
SELECT {now} FROM {schema}.job WHERE id = %(id)s::uuid AND {held_by} FOR UPDATE;

-- name: save_phase
-- Save a phase of an attempt; a completed phase is not changed.
INSERT INTO {schema}.phase AS known (
    job_id, name, fence, position, status, progress, message, result, error, started_at, ended_at
)
SELECT %(id)s::uuid, %(name)s::text, %(fence)s::integer, %(position)s::integer, %(status)s::text,
    %(progress)s::double precision, %(message)s::text, %(result)s::text, %(error)s::text,
    coalesce(%(at)s::bigint, {now}), CASE WHEN %(status)s::text <> 'running' THEN coalesce(%(at)s::bigint, {now}) END
WHERE NOT EXISTS (
    SELECT FROM {schema}.phase WHERE job_id = %(id)s::uuid AND name = %(name)s AND status = 'completed' AND NOT forgotten
)
ON CONFLICT (job_id, name, fence) DO UPDATE SET
    position = excluded.position, status = excluded.status, progress = excluded.progress,
    message = coalesce(excluded.message, known.message), result = excluded.result, error = excluded.error,
    ended_at = excluded.ended_at
RETURNING name;

-- name: read_phases
-- The phases of a job in their order, each from its last attempt.
SELECT job_id::text, name, position, status, progress, message, result, error, fence, started_at, ended_at
FROM {schema}.phase WHERE job_id = %(id)s::uuid AND NOT forgotten AND {newest_try} ORDER BY position, name;

-- name: save_logs
-- Insert log lines of a locked attempt.
INSERT INTO {schema}.log (job_id, fence, at, level, phase, message, details, duration)
SELECT %(id)s::uuid, %(fence)s, coalesce(at, {now}), level, phase, message, details, duration
FROM unnest(%(at)s::bigint[], %(level)s::smallint[], %(phase)s::text[], %(message)s::text[], %(details)s::text[], %(duration)s::bigint[])
    WITH ORDINALITY AS input (at, level, phase, message, details, duration, n) ORDER BY n;

-- name: save_events
-- Insert events, in this order.
INSERT INTO {schema}.event (at, kind, job_id, subject, fence, data)
SELECT {now}, kind, job_id, subject, fence, data
FROM unnest(%(kind)s::text[], %(job_id)s::uuid[], %(subject)s::text[], %(fence)s::integer[], %(data)s::text[])
    WITH ORDINALITY AS input (kind, job_id, subject, fence, data, n) ORDER BY n;
