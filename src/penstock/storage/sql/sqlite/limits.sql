-- Statements of limits: which jobs of a concurrency key are admitted, and what rates allow.

-- let ageing: coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'ageing'), 600000000)
-- let admitted: limit_key IS NOT NULL AND NOT blocked AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid))

-- let rate_by_key: control.rate_per_key AND control.rate_count > 0
-- let full_at: coalesce((SELECT full_at FROM bucket WHERE name = :limit_key || '@' || control.rate_count || '/' || control.rate_period), 0)
-- let tokens: (control.rate_period - max(0, {full_at} - :now)) * control.rate_count / control.rate_period

-- let room:
coalesce((
    SELECT max(0, min(
        CASE control.key_concurrency WHEN 0 THEN 1000000000 ELSE control.key_concurrency - (
            SELECT count(*) FROM job WHERE limit_key = :limit_key AND {admitted}
        ) END,
        CASE WHEN {rate_by_key} THEN max(1, {tokens}) - (
            SELECT count(*) FROM job WHERE limit_key = :limit_key AND {admitted} AND +status IN {pending}
        ) ELSE 1000000000 END
    ))
    FROM definition JOIN control USING (key) WHERE definition.lane = (
        SELECT lane FROM job WHERE limit_key = :limit_key AND blocked ORDER BY rank, id LIMIT 1
    )
), 0)

-- let unserved:
SELECT definition.lane FROM definition JOIN control USING (key)
WHERE (key_concurrency > 0 OR rate_per_key) AND definition.lane NOT IN (SELECT value FROM json_each(:served))
    AND key IN (SELECT key FROM definition WHERE lane IN (SELECT value FROM json_each(:served)))
    AND EXISTS (SELECT 1 FROM job WHERE job.lane = definition.lane AND status = {queued} AND NOT blocked)

-- name: touch_keys
-- Nothing to note: jobs are admitted in the transaction that changes others of their concurrency key.
SELECT 1 WHERE false;

-- name: touched_keys
-- Concurrency keys with notes: none.
SELECT NULL WHERE false LIMIT :limit;

-- name: hold_keys
-- These concurrency keys: one transaction writes at a time.
SELECT limit_key, '' FROM {input};

-- name: admit
-- Admit waiting jobs of these concurrency keys up to their limit, of a key with a rate as many as it has tokens for, at
-- least one. Jobs of unserved lanes come last.
UPDATE job SET blocked = 0 WHERE id IN (
    SELECT id FROM job WHERE limit_key = :limit_key AND blocked AND lane NOT IN (SELECT lane FROM unserved_lane)
    ORDER BY rank, id LIMIT {room}
);
UPDATE job SET blocked = 0 WHERE EXISTS (SELECT 1 FROM unserved_lane) AND id IN (
    SELECT id FROM job WHERE limit_key = :limit_key AND blocked AND lane IN (SELECT lane FROM unserved_lane)
    ORDER BY rank, id LIMIT {room}
);
-- then

-- name: blocked_keys
-- Concurrency keys after this one with blocked jobs, for the sweep that repairs them; found one by one.
WITH RECURSIVE held_back AS (
    SELECT (SELECT limit_key FROM job WHERE blocked AND limit_key > :after ORDER BY limit_key, rank, id LIMIT 1) AS limit_key
    UNION ALL
    SELECT (SELECT limit_key FROM job WHERE blocked AND job.limit_key > held_back.limit_key ORDER BY limit_key, rank, id LIMIT 1)
    FROM held_back WHERE held_back.limit_key IS NOT NULL
)
SELECT limit_key FROM held_back WHERE limit_key IS NOT NULL LIMIT :limit;

-- name: keys_with_room
-- Those of these concurrency keys that have room.
SELECT input.limit_key FROM {input} AS input JOIN definition ON definition.lane = (
    SELECT lane FROM job WHERE job.limit_key = input.limit_key AND blocked ORDER BY rank, id LIMIT 1
) JOIN control USING (key)
WHERE (control.key_concurrency = 0 OR control.key_concurrency > (
    SELECT count(*) FROM job WHERE limit_key = input.limit_key AND {admitted}
)) AND NOT ({rate_by_key} AND EXISTS (
    SELECT 1 FROM job WHERE limit_key = input.limit_key AND {admitted} AND +status IN {pending}
));

-- name: has_unserved_admitted
-- Whether admitted jobs of unserved lanes may take slots of concurrency keys, or such a lane is served again.
SELECT 1 WHERE EXISTS (SELECT 1 FROM unserved_lane WHERE lane IN (SELECT value FROM json_each(:served)))
    OR (EXISTS (SELECT 1 FROM job WHERE blocked) AND EXISTS ({unserved}));

-- name: note_unserved
-- Record lanes with ready jobs that no live worker serves while another version is served; delete those that are
-- served.
DELETE FROM unserved_lane WHERE lane IN (SELECT value FROM json_each(:served));
INSERT OR IGNORE INTO unserved_lane (lane) {unserved};

-- name: block_unserved
-- Block admitted jobs of unserved lanes again, as many as jobs of served lanes wait for their concurrency keys, the
-- last ones first. Return these keys.
UPDATE job SET blocked = 1, rate_paid = 0 WHERE id IN (
    SELECT holder.id FROM (
        SELECT job.id, limit_key, row_number() OVER (PARTITION BY limit_key ORDER BY rank DESC, job.id DESC) AS place
        FROM {input} AS input CROSS JOIN job USING (limit_key)
        WHERE {admitted} AND status = {queued} AND lane IN (SELECT lane FROM unserved_lane)
    ) AS holder
    WHERE place <= (
        SELECT count(*) FROM job AS waiting WHERE waiting.limit_key = holder.limit_key AND waiting.blocked
            AND waiting.lane IN (SELECT value FROM json_each(:served))
    )
) RETURNING limit_key;

-- name: lock_limited
-- The definitions with limits among these lanes; paused ones are left out.
SELECT DISTINCT control.key, concurrency, rate_count, rate_period, rate_per_key, :now FROM {input} AS input
JOIN definition USING (lane) JOIN control USING (key)
WHERE (concurrency > 0 OR rate_count > 0) AND (pause_at IS NULL OR pause_until <= :now)
    AND NOT EXISTS (
        SELECT 1 FROM control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > :now)
    )
ORDER BY 1;

-- name: lane_keys
-- The definition keys of these lanes.
SELECT definition.lane, key FROM {input} AS input JOIN definition ON definition.lane = input.lane;

-- name: count_running
-- The number of running jobs of these definitions.
SELECT definition.key, count(*) FROM job JOIN definition USING (lane)
WHERE worker IS NOT NULL AND definition.key IN (SELECT key FROM {input}) GROUP BY definition.key;

-- name: read_buckets
-- Rate buckets, with how far ahead of the clock each was written.
SELECT bucket.name, full_at, max(0, at - :now) FROM {input} AS input JOIN bucket ON bucket.name = input.name;

-- name: save_buckets
-- Save rate buckets after tokens were taken.
INSERT INTO bucket (name, full_at, at) SELECT name, full_at, :now FROM {input} WHERE true
ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at, at = excluded.at;

-- name: early_buckets
-- Rate buckets written a second or more ahead of a clock that was set back: move them back by that time.
DELETE FROM temp.ahead;
INSERT INTO temp.ahead (name, lead) SELECT name, at - :now FROM bucket WHERE at > :now + 1000000 ORDER BY at LIMIT :limit;
UPDATE bucket SET full_at = full_at - lead, at = at - lead FROM temp.ahead AS ahead WHERE bucket.name = ahead.name;
SELECT name, lead FROM temp.ahead;

-- name: advance_delayed
-- Make jobs that a rate has delayed due earlier, by concurrency key.
UPDATE job SET due_at = due_at - lead, rank = rank - lead FROM {input} AS input
WHERE job.limit_key = input.limit_key AND job.limit_key IS NOT NULL AND NOT blocked
    AND (status IN {queued_or_live} OR (status = {scheduled} AND rate_paid)) AND status = {scheduled};

-- name: lock_best_queued
-- Lock the first jobs of a lane after a position, for limits that must know them before they are claimed.
SELECT id, rank, limit_key FROM job
WHERE lane = :lane AND status = {queued} AND NOT blocked AND (rank, id) > (:after_rank, :after_id)
ORDER BY rank, id LIMIT :limit;

-- name: pay_rates
-- Save which jobs may start in this claim, because their keys have tokens, and which may not.
UPDATE job SET rate_paid = input.paid FROM {input} AS input WHERE job.id = input.id AND rate_paid <> input.paid;

-- name: put_off
-- Delay jobs until their keys have a token; they stay admitted.
INSERT INTO tally_delta (lane, minute, status, n)
SELECT lane, :now / 60000000, step.column1, step.column2 * count(*)
FROM {input} AS input CROSS JOIN job ON job.id = input.id CROSS JOIN (VALUES ({queued}, -1), ({scheduled}, 1)) AS step
GROUP BY lane, step.column1;
UPDATE job SET rate_paid = 1, updated_at = :now, status = {scheduled}, due_at = input.due, rank = input.due - priority * {ageing}
FROM {input} AS input WHERE job.id = input.id;
