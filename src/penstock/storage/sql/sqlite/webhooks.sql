-- Statements of the webhooks port: endpoints, and what is on its way to them.
-- :now is the wall clock; {input} is the table of the rows handed in; other {names} are let here.

-- let columns: webhook.id, webhook.url, webhook.description, webhook.kinds, webhook.definitions, webhook.enabled, substr(webhook.secret, -4), CASE WHEN webhook.old_secret_until > :now THEN substr(webhook.old_secret, -4) END, CASE WHEN webhook.old_secret_until > :now THEN webhook.old_secret_until END, webhook.disabled_reason, coalesce(receiver.failures, 0), CASE WHEN receiver.open_until > :now THEN receiver.open_until END, receiver.last_success_at, receiver.last_failure_at, webhook.created_at, webhook.updated_at, webhook.revision
-- let told: delivery.id, delivery.endpoint, delivery.url, delivery.kind, delivery.job_id, delivery.status, delivery.tries, delivery.due_at, delivery.created_at, delivery.ended_at, delivery.status_code, delivery.error, delivery.seq

-- name: hold_endpoint
-- An endpoint; the transaction is the only writer.
SELECT {columns} FROM webhook LEFT JOIN receiver ON receiver.key = webhook.id WHERE webhook.id = :id;

-- name: read_endpoint
-- An endpoint.
SELECT {columns} FROM webhook LEFT JOIN receiver ON receiver.key = webhook.id WHERE webhook.id = :id;

-- name: list_endpoints
-- Every endpoint, the oldest first.
SELECT {columns} FROM webhook LEFT JOIN receiver ON receiver.key = webhook.id ORDER BY webhook.created_at, webhook.id;

-- name: create_endpoint
-- An endpoint that was not there.
INSERT INTO webhook (id, url, description, kinds, definitions, enabled, secret, since, created_at, updated_at)
VALUES (:id, :url, :description, :kinds, :definitions, :enabled, :secret, :now, :now, :now)
ON CONFLICT (id) DO NOTHING RETURNING id;

-- name: replace_endpoint
-- Replace a locked endpoint; one that is enabled again receives events from now on.
UPDATE webhook SET url = :url, description = :description, kinds = :kinds, definitions = :definitions,
    since = CASE WHEN :enabled AND NOT enabled THEN :now ELSE since END, enabled = :enabled,
    disabled_reason = CASE WHEN NOT :enabled THEN disabled_reason END, updated_at = :now, revision = revision + 1
WHERE id = :id;

-- name: disable_endpoint
-- Disable an endpoint.
UPDATE webhook SET enabled = 0, disabled_reason = :reason, updated_at = :now, revision = revision + 1
WHERE id = :id AND enabled RETURNING id;

-- name: remove_endpoint
-- Delete an endpoint.
DELETE FROM webhook WHERE id = :id;

-- name: fail_deliveries
-- What waits for a receiver that is gone has failed.
UPDATE delivery SET status = 'failed', ended_at = :now, owner = NULL, error = :error
WHERE receiver = :id AND status = 'waiting';

-- name: rotate_secret
-- A held endpoint gets another secret; for a while the one before it is valid, too.
UPDATE webhook SET old_secret = secret, old_secret_until = :now + :overlap, secret = :secret,
    updated_at = :now, revision = revision + 1
WHERE id = :id AND secret <> :secret RETURNING id;

-- name: delivery_outlook
-- Whether an endpoint or a job asks for events, when a delivery is due, and the current time.
SELECT EXISTS (SELECT 1 FROM webhook WHERE enabled), EXISTS (SELECT 1 FROM job_detail WHERE webhook_url IS NOT NULL),
    (SELECT due_at FROM delivery WHERE status = 'waiting' ORDER BY due_at LIMIT 1), :now;

-- name: hold_webhook_feed
-- The feed cursor of webhooks; the transaction is the only writer.
SELECT cursor, moved_at, since FROM webhook_feed;

-- name: move_webhook_feed
-- The feed was read so far for webhooks.
UPDATE webhook_feed SET cursor = :cursor, since = :since, moved_at = :now;

-- name: subscribed_endpoints
-- The endpoints that are enabled, with what they ask for and since when.
SELECT id, url, kinds, definitions, since FROM webhook WHERE enabled ORDER BY id;

-- name: jobs_with_webhooks
-- Those of these jobs that have their own webhook URL.
SELECT detail.id FROM {input} AS input CROSS JOIN job_detail AS detail ON detail.id = input.id
WHERE detail.webhook_url IS NOT NULL;

-- name: lock_receivers
-- Make sure that these receivers are there, and stay.
INSERT INTO receiver (key) SELECT key FROM {input} WHERE true ON CONFLICT (key) DO NOTHING;

-- name: save_deliveries
-- Deliveries to be made, in this order; what is there already is left as it is.
INSERT INTO delivery (id, endpoint, event_seq, receiver, url, kind, job_id, body, due_at, created_at)
SELECT id, endpoint, event_seq, receiver, url, kind, job_id, body, :now, :now FROM {input} WHERE true ORDER BY rowid
ON CONFLICT DO NOTHING RETURNING id;

-- name: hold_receivers
-- Receivers with a due delivery, the longest unserved first; paused and disabled ones are left out.
SELECT key, open_until IS NOT NULL FROM receiver LEFT JOIN webhook ON webhook.id = receiver.key
WHERE (open_until IS NULL OR open_until <= :now) AND coalesce(webhook.enabled, 1) AND EXISTS (
    SELECT 1 FROM delivery WHERE delivery.receiver = receiver.key AND status = 'waiting' AND due_at <= :now
)
ORDER BY served_at, key LIMIT :limit;

-- name: due_deliveries
-- The due deliveries of a locked receiver, up to its limit of concurrent ones.
SELECT seq FROM delivery WHERE receiver = :key AND status = 'waiting' AND due_at <= :now ORDER BY due_at, seq
LIMIT max(0, min(:room, :most - (
    SELECT count(*) FROM delivery WHERE receiver = :key AND status = 'waiting' AND owner IS NOT NULL AND due_at > :now
)));

-- name: take_deliveries
-- These deliveries are a sender's for a while.
UPDATE delivery SET owner = :owner, due_at = :now + :lease, tries = tries + 1
WHERE seq IN (SELECT seq FROM {input}) AND status = 'waiting' AND due_at <= :now;
UPDATE receiver SET served_at = :now WHERE key IN (
    SELECT receiver FROM delivery WHERE seq IN (SELECT seq FROM {input})
);
SELECT delivery.id, delivery.endpoint, coalesce(webhook.url, delivery.url), delivery.body, delivery.tries, delivery.tries - delivery.earlier_tries,
    receiver.failures, webhook.secret, CASE WHEN webhook.old_secret_until > :now THEN webhook.old_secret END
FROM {input} AS input CROSS JOIN delivery ON delivery.seq = input.seq
JOIN receiver ON receiver.key = delivery.receiver LEFT JOIN webhook ON webhook.id = delivery.endpoint
WHERE delivery.owner = :owner ORDER BY input.rowid;

-- name: settle_delivery
-- A try has ended, if it is still the delivery's newest one.
UPDATE delivery SET status = :status, owner = NULL, status_code = :status_code, error = :error,
    due_at = CASE :status WHEN 'waiting' THEN :now + :delay ELSE due_at END,
    ended_at = CASE :status WHEN 'waiting' THEN NULL ELSE :now END
WHERE id = :id AND tries = :number AND status = 'waiting' AND owner IS NOT NULL
RETURNING seq, endpoint, receiver, kind, job_id, tries;

-- name: save_try
-- How one try of a delivery ended.
INSERT INTO delivery_try (delivery, number, at, duration, status_code, error, excerpt)
VALUES (:delivery, :number, :now, :duration, :status_code, :error, :excerpt);

-- name: note_receiver
-- How well a receiver is after a try.
UPDATE receiver SET failures = CASE WHEN :unwell THEN failures + 1 ELSE 0 END,
    open_until = CASE WHEN NOT :unwell THEN NULL WHEN :pause > 0 THEN :now + :pause ELSE open_until END,
    last_failure_at = CASE WHEN :delivered THEN last_failure_at ELSE :now END,
    last_success_at = CASE WHEN :delivered THEN :now ELSE last_success_at END,
    failing_since = CASE WHEN NOT :delivered THEN coalesce(failing_since, :now) END,
    failing_tries = CASE WHEN :delivered THEN 0 ELSE failing_tries + 1 END
WHERE key = :key RETURNING :now - failing_since, failing_tries;

-- name: reset_receiver
-- Reset the failures of a receiver.
UPDATE receiver SET failures = 0, open_until = NULL, failing_since = NULL, failing_tries = 0 WHERE key = :key;

-- name: delivery_of_endpoint
-- Deliveries to one endpoint.
delivery.endpoint = :endpoint

-- name: delivery_of_job
-- Deliveries about one job.
delivery.job_id = :job_id

-- name: delivery_in_status
-- Deliveries in this status.
delivery.status = :status

-- name: delivery_before
-- Deliveries after the last one of a page.
delivery.seq < :before

-- name: list_deliveries
-- Deliveries that match conditions, the newest first.
SELECT {told} FROM delivery WHERE {filters} ORDER BY delivery.seq DESC LIMIT :limit;

-- name: read_delivery
-- A delivery with its body.
SELECT {told}, delivery.body FROM delivery WHERE delivery.id = :id;

-- name: read_tries
-- The tries of a delivery, in their order.
SELECT number, at, duration, status_code, error, excerpt FROM delivery_try WHERE delivery = :delivery ORDER BY number;

-- name: redeliver
-- Make a delivery due now; an ended one gets all its tries again.
UPDATE delivery SET due_at = :now,
    earlier_tries = CASE WHEN status = 'waiting' THEN earlier_tries ELSE tries END, status = 'waiting', ended_at = NULL
WHERE id = :id AND owner IS NULL RETURNING id;

-- name: drop_old_deliveries
-- Delete deliveries that ended long ago, with their tries, and those that have waited for much longer.
DELETE FROM delivery WHERE seq IN (
    SELECT seq FROM delivery WHERE created_at < :now - :age
        AND (ended_at < :now - :age OR created_at < :now - 4 * :age)
    ORDER BY created_at LIMIT :limit
)
RETURNING 1;

-- name: hold_idle_receivers
-- Receivers without waiting deliveries that are no endpoints.
SELECT key FROM receiver WHERE served_at < :now - :age AND NOT EXISTS (SELECT 1 FROM webhook WHERE webhook.id = receiver.key)
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.receiver = receiver.key AND status = 'waiting')
LIMIT :limit;

-- name: drop_idle_receivers
-- Receivers that are held, if still nothing waits for them.
DELETE FROM receiver WHERE key IN (SELECT key FROM {input})
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.receiver = receiver.key AND status = 'waiting')
RETURNING 1;
