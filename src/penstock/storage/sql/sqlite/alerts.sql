-- Statements of the admin port about alerts.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: active_alerts
-- The active alerts.
SELECT kind, subject FROM alert WHERE cleared_at IS NULL ORDER BY kind, subject;

-- name: raise_alerts
-- Insert alerts that begin now; those that are active already are not returned.
INSERT INTO alert (kind, subject, message, severity, since, raised_at)
SELECT kind, subject, message, severity, since, :now FROM {input} WHERE true ORDER BY kind, subject
ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO NOTHING
RETURNING kind, subject;

-- name: clear_alerts
-- Clear alerts; those that were cleared already are not returned.
UPDATE alert SET cleared_at = :now
WHERE cleared_at IS NULL AND (kind, subject) IN (SELECT kind, subject FROM {input})
RETURNING kind, subject, message, severity, since;

-- name: read_alerts
-- Alerts before a place in the list, the newest first: all, only active, or only cleared ones.
SELECT seq, kind, subject, message, severity, since, raised_at, cleared_at FROM alert
WHERE seq < coalesce(:before, 9223372036854775807) AND (:cleared IS NULL OR (cleared_at IS NOT NULL) = :cleared)
ORDER BY seq DESC LIMIT :limit;

-- name: drop_old_alerts
-- Delete alerts that were cleared before thirteen times the age.
DELETE FROM alert WHERE seq IN (
    SELECT seq FROM alert WHERE cleared_at IS NOT NULL AND cleared_at < :now - 13 * :age LIMIT :limit
)
RETURNING 1;
