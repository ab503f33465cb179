-- Statements of the webhooks port: endpoints, and what is on its way to them.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let columns: webhook.id, webhook.url, webhook.description, webhook.kinds, webhook.definitions, webhook.enabled, right(webhook.secret, 4), CASE WHEN webhook.old_secret_until > {now} THEN right(webhook.old_secret, 4) END, CASE WHEN webhook.old_secret_until > {now} THEN webhook.old_secret_until END, webhook.disabled_reason, coalesce(receiver.failures, 0), CASE WHEN receiver.open_until > {now} THEN receiver.open_until END, receiver.last_success_at, receiver.last_failure_at, webhook.created_at, webhook.updated_at, webhook.revision
-- let told: delivery.id, delivery.endpoint, delivery.url, delivery.kind, delivery.job_id::text, delivery.status, delivery.tries, delivery.due_at, delivery.created_at, delivery.ended_at, delivery.status_code, delivery.error, delivery.seq

-- name: hold_endpoint
-- Lock an endpoint.
SELECT {columns} FROM {schema}.webhook LEFT JOIN {schema}.receiver ON receiver.key = webhook.id
WHERE webhook.id = %(id)s FOR UPDATE OF webhook;

-- name: read_endpoint
-- An endpoint.
SELECT {columns} FROM {schema}.webhook LEFT JOIN {schema}.receiver ON receiver.key = webhook.id WHERE webhook.id = %(id)s;

-- name: list_endpoints
-- Every endpoint, the oldest first.
SELECT {columns} FROM {schema}.webhook LEFT JOIN {schema}.receiver ON receiver.key = webhook.id
ORDER BY webhook.created_at, webhook.id;

-- name: create_endpoint
-- An endpoint that was not there.
WITH clock AS (SELECT {now} AS now)
INSERT INTO {schema}.webhook (id, url, description, kinds, definitions, enabled, secret, since, created_at, updated_at)
SELECT %(id)s, %(url)s, %(description)s, %(kinds)s, %(definitions)s, %(enabled)s::boolean, %(secret)s, now, now, now
FROM clock ON CONFLICT (id) DO NOTHING RETURNING id;

-- name: replace_endpoint
-- Replace a locked endpoint; one that is enabled again receives events from now on.
UPDATE {schema}.webhook SET url = %(url)s, description = %(description)s, kinds = %(kinds)s,
    definitions = %(definitions)s, since = CASE WHEN %(enabled)s::boolean AND NOT enabled THEN {now} ELSE since END,
    enabled = %(enabled)s::boolean, disabled_reason = CASE WHEN NOT %(enabled)s::boolean THEN disabled_reason END,
    updated_at = {now}, revision = revision + 1
WHERE id = %(id)s;

-- name: disable_endpoint
-- Disable an endpoint.
UPDATE {schema}.webhook SET enabled = false, disabled_reason = %(reason)s, updated_at = {now}, revision = revision + 1
WHERE id = %(id)s AND enabled RETURNING id;

-- name: remove_endpoint
-- Delete an endpoint.
DELETE FROM {schema}.webhook WHERE id = %(id)s;

-- name: fail_deliveries
-- What waits for a receiver that is gone has failed.
UPDATE {schema}.delivery SET status = 'failed', ended_at = {now}, owner = NULL, error = %(error)s
WHERE receiver = %(id)s AND status = 'waiting';

-- name: rotate_secret
-- A held endpoint gets another secret; for a while the one before it is valid, too.
UPDATE {schema}.webhook SET old_secret = secret, old_secret_until = {now} + %(overlap)s::bigint, secret = %(secret)s,
    updated_at = {now}, revision = revision + 1
WHERE id = %(id)s AND secret <> %(secret)s RETURNING id;

-- name: delivery_outlook
-- Whether an endpoint or a job asks for events, when a delivery is due, and the current time.
SELECT EXISTS (SELECT FROM {schema}.webhook WHERE enabled),
    EXISTS (SELECT FROM {schema}.job_detail WHERE webhook_url IS NOT NULL),
    (SELECT due_at FROM {schema}.delivery WHERE status = 'waiting' ORDER BY due_at LIMIT 1), {now};

-- name: hold_webhook_feed
-- Lock the feed cursor of webhooks; nothing when another transaction holds it.
SELECT cursor, moved_at, since FROM {schema}.webhook_feed FOR UPDATE SKIP LOCKED;

-- name: move_webhook_feed
-- The feed was read so far for webhooks.
UPDATE {schema}.webhook_feed SET cursor = %(cursor)s, since = %(since)s::bigint, moved_at = {now};

-- name: subscribed_endpoints
-- The endpoints that are enabled, with what they ask for and since when.
SELECT id, url, kinds, definitions, since FROM {schema}.webhook WHERE enabled ORDER BY id;

-- name: jobs_with_webhooks
-- Those of these jobs that have their own webhook URL.
SELECT id::text FROM {schema}.job_detail WHERE id = ANY(%(id)s::uuid[]) AND webhook_url IS NOT NULL;

-- name: lock_receivers
-- Make sure that these receivers are there, and stay.
INSERT INTO {schema}.receiver AS known (key)
SELECT key FROM unnest(%(key)s::text[]) AS input (key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET served_at = known.served_at;

-- name: save_deliveries
-- Deliveries to be made, in this order; what is there already is left as it is.
WITH clock AS (SELECT {now} AS now)
INSERT INTO {schema}.delivery (id, endpoint, event_seq, receiver, url, kind, job_id, body, due_at, created_at)
SELECT id, endpoint, event_seq, receiver, url, kind, job_id, body, now, now FROM unnest(
    %(id)s::text[], %(endpoint)s::text[], %(event_seq)s::bigint[], %(receiver)s::text[], %(url)s::text[],
    %(kind)s::text[], %(job_id)s::uuid[], %(body)s::text[]
) WITH ORDINALITY AS input (id, endpoint, event_seq, receiver, url, kind, job_id, body, n) CROSS JOIN clock ORDER BY n
ON CONFLICT DO NOTHING RETURNING id;

-- name: hold_receivers
-- Receivers with a due delivery, the longest unserved first; paused, disabled and locked ones are left out.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT key, open_until IS NOT NULL FROM {schema}.receiver
WHERE (open_until IS NULL OR open_until <= (SELECT now FROM clock))
    AND NOT EXISTS (SELECT FROM {schema}.webhook WHERE webhook.id = receiver.key AND NOT enabled)
    AND EXISTS (
        SELECT FROM {schema}.delivery
        WHERE delivery.receiver = receiver.key AND status = 'waiting' AND due_at <= (SELECT now FROM clock)
    )
ORDER BY served_at, key LIMIT %(limit)s FOR UPDATE OF receiver SKIP LOCKED;

-- name: due_deliveries
-- The due deliveries of a locked receiver, up to its limit of concurrent ones.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT seq FROM {schema}.delivery
WHERE receiver = %(key)s AND status = 'waiting' AND due_at <= (SELECT now FROM clock) ORDER BY due_at, seq
LIMIT greatest(0, least(%(room)s::bigint, %(most)s::bigint - (
    SELECT count(*) FROM {schema}.delivery AS taken
    WHERE taken.receiver = %(key)s AND taken.status = 'waiting' AND taken.owner IS NOT NULL
        AND taken.due_at > (SELECT now FROM clock)
)));

-- name: take_deliveries
-- These deliveries are a sender's for a while.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
taken AS (
    UPDATE {schema}.delivery SET owner = %(owner)s, due_at = now + %(lease)s::bigint, tries = tries + 1
    FROM unnest(%(seq)s::bigint[]) WITH ORDINALITY AS input (seq, n) CROSS JOIN clock
    WHERE delivery.seq = input.seq AND status = 'waiting' AND due_at <= now
    RETURNING n, delivery.*
),
served AS (
    UPDATE {schema}.receiver SET served_at = now FROM clock WHERE key IN (SELECT taken.receiver FROM taken)
)
SELECT taken.id, taken.endpoint, coalesce(webhook.url, taken.url), taken.body, taken.tries, taken.tries - taken.earlier_tries,
    receiver.failures, webhook.secret, CASE WHEN webhook.old_secret_until > now THEN webhook.old_secret END
FROM taken CROSS JOIN clock JOIN {schema}.receiver ON receiver.key = taken.receiver
LEFT JOIN {schema}.webhook ON webhook.id = taken.endpoint ORDER BY n;

-- name: settle_delivery
-- A try has ended, if it is still the delivery's newest one.
UPDATE {schema}.delivery SET status = %(status)s, owner = NULL, status_code = %(status_code)s::integer,
    error = %(error)s::text,
    due_at = CASE %(status)s WHEN 'waiting' THEN {now} + %(delay)s::bigint ELSE due_at END,
    ended_at = CASE %(status)s WHEN 'waiting' THEN NULL ELSE {now} END
WHERE id = %(id)s AND tries = %(number)s::integer AND status = 'waiting' AND owner IS NOT NULL
RETURNING seq, endpoint, receiver, kind, job_id::text, tries;

-- name: save_try
-- How one try of a delivery ended.
INSERT INTO {schema}.delivery_try (delivery, number, at, duration, status_code, error, excerpt)
SELECT %(delivery)s::bigint, %(number)s::integer, {now}, %(duration)s::bigint, %(status_code)s::integer,
    %(error)s::text, %(excerpt)s::text;

-- name: note_receiver
-- How well a receiver is after a try.
WITH clock AS (SELECT {now} AS now)
UPDATE {schema}.receiver SET failures = CASE WHEN %(unwell)s::boolean THEN failures + 1 ELSE 0 END,
    open_until = CASE WHEN NOT %(unwell)s::boolean THEN NULL
        WHEN %(pause)s::bigint > 0 THEN now + %(pause)s::bigint ELSE open_until END,
    last_failure_at = CASE WHEN %(delivered)s::boolean THEN last_failure_at ELSE now END,
    last_success_at = CASE WHEN %(delivered)s::boolean THEN now ELSE last_success_at END,
    failing_since = CASE WHEN NOT %(delivered)s::boolean THEN coalesce(failing_since, now) END,
    failing_tries = CASE WHEN %(delivered)s::boolean THEN 0 ELSE failing_tries + 1 END
FROM clock WHERE key = %(key)s RETURNING now - failing_since, failing_tries;

-- name: reset_receiver
-- Reset the failures of a receiver.
UPDATE {schema}.receiver SET failures = 0, open_until = NULL, failing_since = NULL, failing_tries = 0
WHERE key = %(key)s;

-- name: delivery_of_endpoint
-- Deliveries to one endpoint.
delivery.endpoint = %(endpoint)s

-- name: delivery_of_job
-- Deliveries about one job.
delivery.job_id = %(job_id)s::uuid

-- name: delivery_in_status
-- Deliveries in this status.
delivery.status = %(status)s

-- name: delivery_before
-- Deliveries after the last one of a page.
delivery.seq < %(before)s::bigint

-- name: list_deliveries
-- Deliveries that match conditions, the newest first.
SELECT {told} FROM {schema}.delivery WHERE {filters} ORDER BY delivery.seq DESC LIMIT %(limit)s;

-- name: read_delivery
-- A delivery with its body.
SELECT {told}, delivery.body FROM {schema}.delivery WHERE delivery.id = %(id)s;

-- name: read_tries
-- The tries of a delivery, in their order.
SELECT number, at, duration, status_code, error, excerpt FROM {schema}.delivery_try
WHERE delivery = %(delivery)s::bigint ORDER BY number;

-- name: redeliver
-- Make a delivery due now; an ended one gets all its tries again.
UPDATE {schema}.delivery SET due_at = {now},
    earlier_tries = CASE WHEN status = 'waiting' THEN earlier_tries ELSE tries END, status = 'waiting', ended_at = NULL
WHERE id = %(id)s AND owner IS NULL RETURNING id;

-- name: drop_old_deliveries
-- Delete deliveries that ended long ago, with their tries, and those that have waited for much longer.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
chosen AS MATERIALIZED (
    SELECT seq FROM {schema}.delivery WHERE created_at < (SELECT now FROM clock) - %(age)s::bigint
        AND (ended_at < (SELECT now FROM clock) - %(age)s::bigint
            OR created_at < (SELECT now FROM clock) - 4 * %(age)s::bigint)
    ORDER BY created_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.delivery USING chosen WHERE delivery.seq = chosen.seq RETURNING 1;

-- name: hold_idle_receivers
-- Lock receivers without waiting deliveries that are no endpoints.
SELECT key FROM {schema}.receiver WHERE served_at < {now} - %(age)s::bigint
    AND NOT EXISTS (SELECT FROM {schema}.webhook WHERE webhook.id = receiver.key)
    AND NOT EXISTS (SELECT FROM {schema}.delivery WHERE delivery.receiver = receiver.key AND status = 'waiting')
LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: drop_idle_receivers
-- Receivers that are held, if still nothing waits for them.
DELETE FROM {schema}.receiver WHERE key = ANY(%(key)s::text[])
    AND NOT EXISTS (SELECT FROM {schema}.delivery WHERE delivery.receiver = receiver.key AND status = 'waiting')
RETURNING 1;
