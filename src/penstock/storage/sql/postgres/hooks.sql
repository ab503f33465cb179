-- Statements about the outbox of hook calls.
-- {now} is the instant given by the caller, or else the database's own clock.

-- name: save_hooks
-- Insert hook calls, in this order.
INSERT INTO {schema}.hook (lane, job_id, fence, kind, data, at)
SELECT lane, job_id, fence, kind, data, {now}
FROM unnest(%(lane)s::integer[], %(job_id)s::uuid[], %(fence)s::integer[], %(kind)s::text[], %(data)s::text[])
    WITH ORDINALITY AS input (lane, job_id, fence, kind, data, n) ORDER BY n;

-- name: take_hooks
-- Delete the oldest calls of these lanes and return them; calls locked by another transaction are skipped.
WITH chosen AS MATERIALIZED (
    SELECT lane, seq FROM {schema}.hook WHERE lane = ANY(%(lanes)s::integer[])
    ORDER BY seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.hook USING chosen WHERE hook.lane = chosen.lane AND hook.seq = chosen.seq
RETURNING hook.seq, hook.job_id::text, hook.lane, hook.fence, hook.kind, hook.data, hook.at;

-- name: drop_old_hooks
-- Delete calls that no worker has taken for long.
WITH chosen AS MATERIALIZED (
    SELECT lane, seq FROM {schema}.hook WHERE at < (SELECT {now}) - %(age)s::bigint
    ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.hook USING chosen WHERE hook.lane = chosen.lane AND hook.seq = chosen.seq
RETURNING 1;
