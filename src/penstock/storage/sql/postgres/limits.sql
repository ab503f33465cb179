-- Statements of limits: which jobs of a concurrency key are admitted, and what rates allow.

-- let ageing: coalesce((SELECT value::bigint FROM {schema}.setting WHERE name = 'ageing'), 600000000)
-- let admitted: limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid))

-- let rate_by_key: control.rate_per_key AND control.rate_count > 0
-- let missing: greatest(0, coalesce(bucket.full_at, 0) - {now})
-- let tokens: (control.rate_period - {missing}) * control.rate_count / nullif(control.rate_period, 0)

-- let unserved:
SELECT definition.lane FROM {schema}.definition JOIN {schema}.control USING (key)
WHERE (key_concurrency > 0 OR rate_per_key) AND definition.lane <> ALL(%(served)s::integer[])
    AND key IN (SELECT key FROM {schema}.definition WHERE lane = ANY(%(served)s::integer[]))
    AND (
        SELECT true FROM {schema}.job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked ORDER BY rank, id LIMIT 1
    )

-- name: touch_keys
-- Note that jobs of these concurrency keys have changed. Each note is a separate row: no transaction waits for
-- another's key.
INSERT INTO {schema}.key_note (limit_key) SELECT unnest(%(limit_key)s::text[]);

-- name: touched_keys
-- Concurrency keys with notes, found one by one.
WITH RECURSIVE touched AS (
    (SELECT limit_key FROM {schema}.key_note ORDER BY limit_key LIMIT 1)
    UNION ALL
    SELECT (SELECT limit_key FROM {schema}.key_note AS note WHERE note.limit_key > touched.limit_key ORDER BY limit_key LIMIT 1)
    FROM touched WHERE touched.limit_key IS NOT NULL
)
SELECT limit_key FROM touched WHERE limit_key IS NOT NULL LIMIT %(limit)s;

-- name: hold_keys
-- Lock all notes of these concurrency keys; keys with a note locked by another transaction are left out.
WITH note AS MATERIALIZED (
    SELECT limit_key, id FROM {schema}.key_note WHERE limit_key = ANY(%(limit_key)s::text[])
),
held AS MATERIALIZED (
    SELECT limit_key, id FROM {schema}.key_note WHERE limit_key = ANY(%(limit_key)s::text[]) FOR UPDATE SKIP LOCKED
)
SELECT note.limit_key, string_agg(note.id::text, ',') FROM note LEFT JOIN held USING (limit_key, id)
GROUP BY note.limit_key HAVING count(*) = count(held.id);

-- name: admit
-- Admit waiting jobs of these concurrency keys up to their limit, of a key with a rate as many as it has tokens for, at
-- least one; and delete the locked notes. Jobs of unserved lanes come last. Keys with a waiting job locked by another
-- transaction, or with more to admit, keep their notes and are returned.
WITH room AS MATERIALIZED (
    SELECT input.limit_key,
        least(1000, greatest(0, CASE control.key_concurrency WHEN 0 THEN 1000 ELSE control.key_concurrency - taken.n END),
            CASE WHEN {rate_by_key} THEN greatest(0, greatest(1, {tokens}) - taken.waiting) ELSE 1000 END) AS free
    FROM unnest(%(limit_key)s::text[]) AS input (limit_key)
    CROSS JOIN LATERAL (
        SELECT lane FROM {schema}.job WHERE job.limit_key = input.limit_key AND blocked ORDER BY rank, id LIMIT 1
    ) AS first
    JOIN {schema}.definition ON definition.lane = first.lane JOIN {schema}.control ON control.key = definition.key
    CROSS JOIN LATERAL (
        SELECT count(*) AS n, count(*) FILTER (WHERE status IN {pending}) AS waiting
        FROM {schema}.job WHERE job.limit_key = input.limit_key AND {admitted}
    ) AS taken
    LEFT JOIN {schema}.bucket ON bucket.name = input.limit_key || '@' || control.rate_count || '/' || control.rate_period
),
waiting AS MATERIALIZED (
    SELECT room.limit_key, count(*) AS n FROM room CROSS JOIN LATERAL (
        SELECT FROM {schema}.job WHERE job.limit_key = room.limit_key AND blocked ORDER BY rank, id LIMIT room.free
    ) AS job GROUP BY room.limit_key
),
first AS MATERIALIZED (
    SELECT room.limit_key, job.id FROM room CROSS JOIN LATERAL (
        SELECT id FROM {schema}.job WHERE job.limit_key = room.limit_key AND blocked
            AND lane <> ALL(ARRAY(SELECT lane FROM {schema}.unserved_lane))
        ORDER BY rank, id LIMIT room.free FOR UPDATE SKIP LOCKED
    ) AS job
),
next AS MATERIALIZED (
    SELECT limit_key, id FROM first
    UNION ALL
    SELECT * FROM (
        SELECT room.limit_key, job.id FROM room CROSS JOIN LATERAL (
            SELECT id FROM {schema}.job WHERE job.limit_key = room.limit_key AND blocked
                AND lane = ANY(ARRAY(SELECT lane FROM {schema}.unserved_lane))
            ORDER BY rank, id LIMIT room.free - (SELECT count(*) FROM first WHERE first.limit_key = room.limit_key)
            FOR UPDATE SKIP LOCKED
        ) AS job WHERE EXISTS (SELECT FROM {schema}.unserved_lane)
    ) AS last
),
let_through AS (UPDATE {schema}.job SET blocked = false FROM next WHERE job.id = next.id),
unfinished AS MATERIALIZED (
    SELECT waiting.limit_key FROM waiting LEFT JOIN (SELECT limit_key, count(*) AS n FROM next GROUP BY limit_key) AS taken
        USING (limit_key)
    WHERE waiting.n = 1000 OR waiting.n > coalesce(taken.n, 0)
),
forgotten AS (
    DELETE FROM {schema}.key_note WHERE id = ANY(%(notes)s::bigint[]) AND limit_key = ANY(%(limit_key)s::text[])
        AND limit_key NOT IN (SELECT limit_key FROM unfinished)
)
SELECT limit_key FROM unfinished;

-- name: blocked_keys
-- Concurrency keys after this one with blocked jobs, for the sweep that repairs them; found one by one.
WITH RECURSIVE held_back AS (
    (SELECT limit_key FROM {schema}.job WHERE blocked AND limit_key > %(after)s ORDER BY limit_key, rank, id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT limit_key FROM {schema}.job WHERE blocked AND job.limit_key > held_back.limit_key
        ORDER BY limit_key, rank, id LIMIT 1
    ) FROM held_back WHERE held_back.limit_key IS NOT NULL
)
SELECT limit_key FROM held_back WHERE limit_key IS NOT NULL LIMIT %(limit)s;

-- name: keys_with_room
-- Those of these concurrency keys that have room.
SELECT input.limit_key FROM unnest(%(limit_key)s::text[]) AS input (limit_key)
CROSS JOIN LATERAL (
    SELECT lane FROM {schema}.job WHERE job.limit_key = input.limit_key AND blocked ORDER BY rank, id LIMIT 1
) AS first
JOIN {schema}.definition ON definition.lane = first.lane JOIN {schema}.control ON control.key = definition.key
WHERE (control.key_concurrency = 0 OR control.key_concurrency > (
    SELECT count(*) FROM {schema}.job WHERE job.limit_key = input.limit_key AND {admitted}
)) AND NOT ({rate_by_key} AND EXISTS (
    SELECT FROM {schema}.job WHERE job.limit_key = input.limit_key AND {admitted} AND status IN {pending}
));

-- name: has_unserved_admitted
-- Whether admitted jobs of unserved lanes may take slots of concurrency keys, or such a lane is served again.
SELECT 1 WHERE EXISTS (SELECT FROM {schema}.unserved_lane WHERE lane = ANY(%(served)s::integer[]))
    OR ((SELECT true FROM {schema}.job WHERE blocked ORDER BY limit_key, rank, id LIMIT 1) AND EXISTS ({unserved}));

-- name: note_unserved
-- Record lanes with ready jobs that no live worker serves while another version is served; delete those that are
-- served.
WITH served_again AS (DELETE FROM {schema}.unserved_lane WHERE lane = ANY(%(served)s::integer[]))
INSERT INTO {schema}.unserved_lane (lane) {unserved} ORDER BY 1 ON CONFLICT DO NOTHING;

-- name: block_unserved
-- Block admitted jobs of unserved lanes again, as many as jobs of served lanes wait for their concurrency keys, the
-- last ones first. Return these keys.
WITH holder AS MATERIALIZED (
    SELECT job.id FROM unnest(%(limit_key)s::text[]) AS input (limit_key) CROSS JOIN LATERAL (
        SELECT id FROM {schema}.job WHERE job.limit_key = input.limit_key AND {admitted} AND status = {queued}
            AND lane = ANY(ARRAY(SELECT lane FROM {schema}.unserved_lane))
        ORDER BY rank DESC, id DESC LIMIT (
            SELECT count(*) FROM {schema}.job AS waiting WHERE waiting.limit_key = input.limit_key AND waiting.blocked
                AND waiting.lane = ANY(%(served)s::integer[])
        ) FOR UPDATE SKIP LOCKED
    ) AS job
)
UPDATE {schema}.job SET blocked = true, rate_paid = false FROM holder WHERE job.id = holder.id RETURNING limit_key;

-- name: lock_limited
-- Lock the definitions with limits among these lanes; paused ones and those locked by another worker are left out.
SELECT control.key, concurrency, rate_count, rate_period, rate_per_key, {now} FROM {schema}.control
WHERE (concurrency > 0 OR rate_count > 0) AND (pause_at IS NULL OR pause_until <= {now})
    AND NOT EXISTS (
        SELECT FROM {schema}.control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > {now})
    )
    AND control.key IN (SELECT key FROM {schema}.definition WHERE lane = ANY(%(lane)s::integer[]))
ORDER BY control.key FOR UPDATE SKIP LOCKED;

-- name: lane_keys
-- The definition keys of these lanes.
SELECT lane, key FROM {schema}.definition WHERE lane = ANY(%(lane)s::integer[]);

-- name: count_running
-- The number of running jobs of these definitions.
SELECT key, count(*) FROM {schema}.job JOIN {schema}.definition USING (lane)
WHERE worker IS NOT NULL AND key = ANY(%(key)s::text[]) GROUP BY key;

-- name: read_buckets
-- Lock rate buckets, with how far ahead of the clock each was written. Buckets locked by another transaction have a
-- null time.
WITH held AS (
    SELECT name, full_at, greatest(0, at - {now}) AS lead FROM {schema}.bucket WHERE name = ANY(%(name)s::text[]) ORDER BY name FOR UPDATE SKIP LOCKED
)
SELECT name, held.full_at, held.lead FROM {schema}.bucket LEFT JOIN held USING (name) WHERE name = ANY(%(name)s::text[]);

-- name: save_buckets
-- Save rate buckets after tokens were taken; claims of their definitions are locked.
INSERT INTO {schema}.bucket (name, full_at, at)
SELECT name, full_at, {now} FROM unnest(%(name)s::text[], %(full_at)s::bigint[]) AS input (name, full_at) ORDER BY 1
ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at, at = excluded.at;

-- name: early_buckets
-- Rate buckets written a second or more ahead of a clock that was set back: move them back by that time.
WITH clock AS (SELECT {now} AS now),
ahead AS MATERIALIZED (
    SELECT name, at - now AS lead FROM {schema}.bucket CROSS JOIN clock WHERE at > (SELECT now + 1000000 FROM clock)
    ORDER BY at LIMIT %(limit)s FOR UPDATE OF bucket SKIP LOCKED
)
UPDATE {schema}.bucket SET full_at = full_at - lead, at = at - lead FROM ahead WHERE bucket.name = ahead.name
RETURNING bucket.name, lead;

-- name: advance_delayed
-- Make jobs that a rate has delayed due earlier, by concurrency key.
UPDATE {schema}.job SET due_at = due_at - lead, rank = rank - lead
FROM unnest(%(limit_key)s::text[], %(lead)s::bigint[]) AS input (limit_key, lead)
WHERE job.limit_key = input.limit_key AND job.limit_key IS NOT NULL AND NOT blocked
    AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid)) AND status = {scheduled};

-- name: lock_best_queued
-- Lock the first jobs of a lane after a position, for limits that must know them before they are claimed.
SELECT id::text, rank, limit_key FROM {schema}.job
WHERE lane = %(lane)s AND status = {queued} AND NOT blocked AND (rank, id) > (%(after_rank)s::bigint, %(after_id)s::uuid)
ORDER BY rank, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: pay_rates
-- Save which jobs may start in this claim, because their keys have tokens, and which may not.
UPDATE {schema}.job SET rate_paid = paid FROM unnest(%(id)s::uuid[], %(paid)s::boolean[]) AS input (id, paid)
WHERE job.id = input.id AND rate_paid <> paid;

-- name: put_off
-- Delay jobs until their keys have a token; they stay admitted.
WITH clock AS (SELECT {now} AS now),
input AS (SELECT * FROM unnest(%(id)s::uuid[], %(due)s::bigint[]) AS input (id, due)),
later AS (
    UPDATE {schema}.job SET rate_paid = true, updated_at = now, status = {scheduled}, due_at = due,
        rank = due - priority * {ageing}
    FROM input CROSS JOIN clock WHERE job.id = input.id
    RETURNING lane, updated_at
)
INSERT INTO {schema}.tally_delta (lane, minute, status, n)
SELECT lane, min(updated_at) / 60000000, step.status, step.n * count(*)
FROM later CROSS JOIN (VALUES ({queued}, -1), ({scheduled}, 1)) AS step (status, n) GROUP BY lane, step.status, step.n;
