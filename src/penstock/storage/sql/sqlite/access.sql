-- Statements of the access port: tokens, sessions, buckets that all processes take from.
-- :now is the wall clock; {names} are let here.

-- let taken: CASE WHEN bucket.full_at <= :now + :capacity THEN max(bucket.full_at - :now, 0) ELSE 0 END
-- let token: token.id, token.name, token.role, token.created_at, token.created_by, token.expires_at, token.revoked_at, token.last_used_at
-- let usable: token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > :now)
-- let unseen: token.last_used_at IS NULL OR token.last_used_at <= :now - 60000000

-- name: save_token
-- Insert a token; an existing id stays as it is.
INSERT INTO token (id, digest, name, role, created_at, created_by, expires_at)
VALUES (:id, :digest, :name, :role, :now, :by, :now + :life) ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: read_tokens
-- All tokens, the oldest first.
SELECT {token} FROM token ORDER BY created_at, id;

-- name: find_token
-- A token with its digest, whether it is usable, and whether its last use must be recorded again.
SELECT {token}, digest, {usable}, {unseen} FROM token WHERE id = :id;

-- name: count_usable_tokens
-- The number of usable tokens.
SELECT count(*) FROM token WHERE {usable};

-- name: close_access
-- Require a token from now on; if one is required already, the time stays.
UPDATE access SET closed_at = coalesce(closed_at, :now) RETURNING 1;

-- name: open_access
-- Require no token any more.
UPDATE access SET closed_at = NULL WHERE closed_at IS NOT NULL RETURNING 1;

-- name: read_access
-- Whether a caller needs a token.
SELECT closed_at IS NOT NULL FROM access;

-- name: revoke_token
-- Revoke a token, unless it is revoked already.
UPDATE token SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING 1;

-- name: touch_token
-- Record that a token is used now, at most once a minute.
UPDATE token SET last_used_at = :now WHERE id = :id AND ({unseen});

-- name: save_session
-- Insert a session of a usable token, which ends with the token at the latest; an existing id stays as it is.
INSERT INTO session (id, digest, token_id, created_at, expires_at)
SELECT :id, :digest, token.id, :now, min(:now + :life, coalesce(token.expires_at, :now + :life))
FROM token WHERE token.id = :token_id AND {usable} ON CONFLICT (id) DO NOTHING
RETURNING id, token_id, created_at, expires_at;

-- name: find_session
-- The token of a session with the session's digest, whether both are usable, and whether the last use must be recorded
-- again.
SELECT {token}, session.digest, {usable} AND session.expires_at > :now, {unseen}
FROM session JOIN token ON token.id = session.token_id WHERE session.id = :id;

-- name: read_session
-- One session.
SELECT id, token_id, created_at, expires_at FROM session WHERE id = :id AND digest = :digest AND token_id = :token_id;

-- name: drop_session
-- Delete a session.
DELETE FROM session WHERE id = :id RETURNING token_id;

-- name: drop_token_sessions
-- Delete all sessions of a token.
DELETE FROM session WHERE token_id = :token_id RETURNING 1;

-- name: drop_expired_sessions
-- Delete expired sessions.
DELETE FROM session WHERE id IN (SELECT id FROM session WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)
RETURNING 1;

-- name: drop_old_tokens
-- Delete tokens that were revoked or expired long ago.
DELETE FROM token WHERE id IN (
    SELECT id FROM token WHERE revoked_at < :now - :age OR expires_at < :now - :age LIMIT :limit
)
RETURNING 1;

-- name: take_tokens
-- Take from a bucket if it has enough: `capacity` is a full bucket in microseconds, `cost` what is taken. A bucket that
-- is more than empty shows that the clock was set back, and counts as full.
INSERT INTO bucket (name, full_at, at) VALUES (:name, :now + :cost, :now)
ON CONFLICT (name) DO UPDATE SET full_at = :now + {taken} + :cost, at = excluded.at
WHERE {taken} + :cost <= :capacity
RETURNING 1;

-- name: wait_for_tokens
-- Microseconds until a bucket has enough.
SELECT full_at + :cost - :capacity - :now FROM bucket WHERE name = :name;
