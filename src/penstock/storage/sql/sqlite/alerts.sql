-- Statements of the admin port about alerts: what somebody should look at, since when, until when.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: active_alerts
-- The alerts that were raised and not cleared.
SELECT kind, subject FROM alert WHERE cleared_at IS NULL ORDER BY kind, subject;

-- name: raise_alerts
-- Alerts that begin now; those that stand already are left out of the answer.
INSERT INTO alert (kind, subject, message, severity, since, raised_at)
SELECT kind, subject, message, severity, since, :now FROM {input} WHERE true ORDER BY kind, subject
ON CONFLICT (kind, subject) WHERE cleared_at IS NULL DO NOTHING
RETURNING kind, subject;

-- name: clear_alerts
-- Alerts that end now; those that have ended already are left out of the answer.
UPDATE alert SET cleared_at = :now
WHERE cleared_at IS NULL AND (kind, subject) IN (SELECT kind, subject FROM {input})
RETURNING kind, subject, message, severity, since;

-- name: read_alerts
-- Alerts before a place in the list, the newest first; all of them, or those that stand, or those that were cleared.
SELECT seq, kind, subject, message, severity, since, raised_at, cleared_at FROM alert
WHERE seq < coalesce(:before, 9223372036854775807) AND (:cleared IS NULL OR (cleared_at IS NOT NULL) = :cleared)
ORDER BY seq DESC LIMIT :limit;

-- name: drop_old_alerts
-- Alerts that were cleared so long ago thirteen times.
DELETE FROM alert WHERE seq IN (
    SELECT seq FROM alert WHERE cleared_at IS NOT NULL AND cleared_at < :now - 13 * :age LIMIT :limit
)
RETURNING 1;
