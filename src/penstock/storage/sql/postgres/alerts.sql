-- Statements of the admin port about alerts.
-- {now} is the instant given by the caller, or else the database's own clock.

-- name: active_alerts
-- The active alerts.
SELECT kind, subject FROM {schema}.alert WHERE cleared_at IS NULL ORDER BY kind, subject;

-- name: raise_alerts
-- Insert alerts that begin now; those that are active already are not returned.
INSERT INTO {schema}.alert (kind, subject, message, severity, since, raised_at)
SELECT kind, subject, message, severity, since, {now} FROM unnest(
    %(kind)s::text[], %(subject)s::text[], %(message)s::text[], %(severity)s::text[], %(since)s::bigint[]
) AS input (kind, subject, message, severity, since) ORDER BY kind, subject
ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO NOTHING
RETURNING kind, subject;

-- name: clear_alerts
-- Clear alerts; those that were cleared already are not returned.
WITH chosen AS MATERIALIZED (
    SELECT seq FROM {schema}.alert JOIN unnest(%(kind)s::text[], %(subject)s::text[]) AS input (kind, subject)
        ON alert.kind = input.kind AND alert.subject = input.subject
    WHERE cleared_at IS NULL ORDER BY alert.kind, alert.subject FOR UPDATE OF alert
)
UPDATE {schema}.alert SET cleared_at = {now} FROM chosen WHERE alert.seq = chosen.seq
RETURNING kind, subject, message, severity, since;

-- name: read_alerts
-- Alerts before a place in the list, the newest first: all, only active, or only cleared ones.
SELECT seq, kind, subject, message, severity, since, raised_at, cleared_at FROM {schema}.alert
WHERE seq < coalesce(%(before)s::bigint, 9223372036854775807)
    AND (%(cleared)s::boolean IS NULL OR (cleared_at IS NOT NULL) = %(cleared)s::boolean)
ORDER BY seq DESC LIMIT %(limit)s;

-- name: drop_old_alerts
-- Delete alerts that were cleared before thirteen times the age.
WITH chosen AS MATERIALIZED (
    SELECT seq FROM {schema}.alert WHERE cleared_at IS NOT NULL AND cleared_at < {now} - 13 * %(age)s::bigint
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.alert USING chosen WHERE alert.seq = chosen.seq
RETURNING 1;
