-- Statements for instants that were written while the clock was ahead: find them, and set them back.
-- :now is the wall clock. A minute ahead is nothing.

-- name: marked_scheduled_jobs
-- Jobs that were put off while the clock was ahead, and when they are due.
SELECT id, due_at FROM job WHERE status = {scheduled} AND due_at > :now + 60000000 AND updated_at > :now + 60000000
    AND NOT rate_paid ORDER BY due_at, id LIMIT :limit;

-- name: set_back_scheduled_jobs
-- Make these scheduled jobs due as long from now as they were from the instant at which they were put off.
UPDATE job SET due_at = due_at - (updated_at - :now), rank = rank - (updated_at - :now), updated_at = :now
FROM {input} AS input WHERE job.id = input.name AND status = {scheduled} AND updated_at > :now;

-- name: marked_queued_jobs
-- Jobs that were queued while the clock was ahead, and their place in time.
SELECT id, due_at FROM job WHERE status = {queued} AND NOT blocked AND due_at > :now + 60000000
UNION ALL SELECT id, due_at FROM job WHERE blocked AND due_at > :now + 60000000 LIMIT :limit;

-- name: set_back_queued_jobs
-- Give these queued jobs a place as if they were queued now.
UPDATE job SET rank = rank - (due_at - :now), due_at = :now FROM {input} AS input
WHERE job.id = input.name AND status = {queued} AND due_at > :now;

-- name: marked_ended_jobs
-- Jobs that ended while the clock was ahead, and until when they are kept.
SELECT id, retire_at FROM job JOIN definition USING (lane)
WHERE finished_at IS NOT NULL AND finished_at > :now + 60000000
    AND retire_at > :now + 60000000 + CASE WHEN retired THEN delete_after ELSE stale_after END LIMIT :limit;

-- name: set_back_ended_jobs
-- Keep these ended jobs as long from now as their definitions say.
UPDATE job SET stale_at = CASE WHEN retired THEN :now ELSE :now + stale_after END,
    retire_at = :now + CASE WHEN retired THEN delete_after ELSE stale_after END
FROM {input} AS input JOIN definition ON true
WHERE job.id = input.name AND definition.lane = job.lane AND finished_at > :now;

-- name: marked_idempotency_keys
-- Jobs whose idempotency keys were taken while the clock was ahead, and when the keys expire.
SELECT job_id, expires_at FROM idempotency JOIN job ON job.id = job_id
WHERE created_at > :now + 60000000 AND expires_at > created_at AND expires_at - created_at < created_at - :now LIMIT :limit;

-- name: set_back_idempotency_keys
-- Let the idempotency keys of these jobs expire as long from now as they were taken for.
UPDATE idempotency SET expires_at = :now + expires_at - created_at FROM {input} AS input JOIN job ON job.id = input.name
WHERE idempotency.job_id = job.id AND expires_at > created_at AND expires_at - created_at < created_at - :now;

-- name: marked_buckets
-- Rate buckets that were written while the clock was ahead, and when they were.
SELECT name, at FROM bucket WHERE at > :now + 60000000 ORDER BY at, name LIMIT :limit;

-- name: marked_deliveries
-- Webhook deliveries whose next try is further off than any pause between two tries, and when it is.
SELECT id, due_at FROM delivery WHERE status = 'waiting' AND due_at > :now + 60000000
    AND (created_at > :now + 60000000 OR due_at > :now + 90000000000) ORDER BY due_at, seq LIMIT :limit;

-- name: set_back_deliveries
-- Make these deliveries due now.
UPDATE delivery SET due_at = :now, created_at = min(created_at, :now), owner = NULL
FROM {input} AS input
WHERE delivery.id = input.name AND status = 'waiting' AND due_at > :now;

-- name: marked_receivers
-- Receivers of webhooks that were served or paused while the clock was ahead, and until when they wait.
SELECT key, max(served_at, coalesce(open_until, 0)) FROM receiver
WHERE served_at > :now + 60000000 OR open_until > :now + 3600000000 ORDER BY key LIMIT :limit;

-- name: set_back_receivers
-- Serve these receivers again.
UPDATE receiver SET served_at = min(served_at, :now), open_until = NULL, failing_since = CASE WHEN failing_since > :now THEN :now ELSE failing_since END
FROM {input} AS input WHERE receiver.key = input.name;

-- name: marked_endpoints
-- Webhook endpoints that were made or enabled while the clock was ahead, and from when on they get events.
SELECT id, since FROM webhook WHERE since > :now + 60000000
UNION ALL SELECT 'all', since FROM webhook_feed WHERE since > :now + 60000000 LIMIT :limit;

-- name: set_back_endpoints
-- Let these webhook endpoints get events from now on.
UPDATE webhook_feed SET since = CASE WHEN since > :now THEN :now ELSE since END;
UPDATE webhook SET since = :now FROM {input} AS input
WHERE webhook.id = input.name AND since > :now;

-- name: marked_sessions
-- Sessions that began while the clock was ahead, and when they end.
SELECT id, expires_at FROM session WHERE created_at > :now + 60000000 ORDER BY id LIMIT :limit;

-- name: set_back_sessions
-- Let these sessions last as long from now as they were to last from their beginning.
UPDATE session SET expires_at = :now + expires_at - created_at, created_at = :now FROM {input} AS input
WHERE session.id = input.name AND created_at > :now;

-- name: marked_alerts
-- Alerts that were raised or cleared while the clock was ahead, and when they were.
SELECT kind || ' ' || subject, max(raised_at, coalesce(cleared_at, 0)) FROM alert
WHERE raised_at > :now + 60000000 OR cleared_at > :now + 60000000 ORDER BY seq LIMIT :limit;

-- name: set_back_alerts
-- Date these alerts as of now.
UPDATE alert SET raised_at = min(raised_at, :now), since = CASE WHEN since > :now THEN :now ELSE since END, cleared_at = CASE WHEN cleared_at > :now THEN :now ELSE cleared_at END
FROM {input} AS input WHERE kind || ' ' || subject = input.name;

-- name: newest_tick
-- The newest tick of a schedule up to now.
SELECT max(instant) FROM tick WHERE schedule = :key AND instant <= :now;

-- name: reset_schedule
-- Continue a locked schedule from another mark, and delete its ticks ahead of the clock.
DELETE FROM tick WHERE schedule = :key AND instant > :now;
UPDATE schedule SET last_scheduled_at = :mark, next_run_at = :next_run_at,
    revision = revision + 1, updated_at = :now WHERE key = :key;
