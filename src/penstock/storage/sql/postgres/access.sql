-- Statements of the access port: tokens, sessions, buckets that all processes take from.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let taken: CASE WHEN bucket.full_at <= {now} + %(capacity)s::bigint THEN greatest(bucket.full_at - {now}, 0) ELSE 0 END
-- let token: token.id, token.name, token.role, token.created_at, token.created_by, token.expires_at, token.revoked_at, token.last_used_at
-- let usable: token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > {now})
-- let unseen: token.last_used_at IS NULL OR token.last_used_at <= {now} - 60000000

-- name: save_token
-- Insert a token; an existing id stays as it is.
WITH clock AS (SELECT {now} AS now)
INSERT INTO {schema}.token (id, digest, name, role, created_at, created_by, expires_at)
SELECT %(id)s, %(digest)s, %(name)s, %(role)s, now, %(by)s, now + %(life)s::bigint FROM clock
ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: read_tokens
-- All tokens, the oldest first.
SELECT {token} FROM {schema}.token ORDER BY created_at, id;

-- name: find_token
-- A token with its digest, whether it is usable, and whether its last use must be recorded again.
SELECT {token}, digest, {usable}, {unseen} FROM {schema}.token WHERE id = %(id)s;

-- name: count_usable_tokens
-- The number of usable tokens.
SELECT count(*) FROM {schema}.token WHERE {usable};

-- name: close_access
-- Require a token from now on; if one is required already, the time stays.
UPDATE {schema}.access SET closed_at = coalesce(closed_at, {now}) RETURNING 1;

-- name: open_access
-- Require no token any more.
UPDATE {schema}.access SET closed_at = NULL WHERE closed_at IS NOT NULL RETURNING 1;

-- name: read_access
-- Whether a caller needs a token.
SELECT closed_at IS NOT NULL FROM {schema}.access;

-- name: revoke_token
-- Revoke a token, unless it is revoked already.
UPDATE {schema}.token SET revoked_at = {now} WHERE id = %(id)s AND revoked_at IS NULL RETURNING 1;

-- name: touch_token
-- Record that a token is used now, at most once a minute.
UPDATE {schema}.token SET last_used_at = {now} WHERE id = %(id)s AND ({unseen});

-- name: save_session
-- Insert a session of a usable token, which ends with the token at the latest; an existing id stays as it is.
WITH clock AS (SELECT {now} AS now),
holder AS MATERIALIZED (
    SELECT id, expires_at FROM {schema}.token WHERE token.id = %(token_id)s AND {usable} FOR SHARE
)
INSERT INTO {schema}.session (id, digest, token_id, created_at, expires_at)
SELECT %(id)s, %(digest)s, holder.id, now, least(now + %(life)s::bigint, holder.expires_at) FROM holder CROSS JOIN clock
ON CONFLICT (id) DO NOTHING
RETURNING id, token_id, created_at, expires_at;

-- name: find_session
-- The token of a session with the session's digest, whether both are usable, and whether the last use must be recorded
-- again.
SELECT {token}, session.digest, {usable} AND session.expires_at > {now}, {unseen}
FROM {schema}.session JOIN {schema}.token ON token.id = session.token_id WHERE session.id = %(id)s;

-- name: read_session
-- One session.
SELECT id, token_id, created_at, expires_at FROM {schema}.session
WHERE id = %(id)s AND digest = %(digest)s AND token_id = %(token_id)s;

-- name: drop_session
-- Delete a session.
DELETE FROM {schema}.session WHERE id = %(id)s RETURNING token_id;

-- name: drop_token_sessions
-- Delete all sessions of a token.
DELETE FROM {schema}.session WHERE token_id = %(token_id)s RETURNING 1;

-- name: drop_expired_sessions
-- Delete expired sessions.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}.session WHERE expires_at <= (SELECT {now}) ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.session USING chosen WHERE session.id = chosen.id
RETURNING 1;

-- name: drop_old_tokens
-- Delete tokens that were revoked or expired long ago.
WITH chosen AS MATERIALIZED (
    SELECT id FROM {schema}.token WHERE revoked_at < {now} - %(age)s::bigint OR expires_at < {now} - %(age)s::bigint
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
DELETE FROM {schema}.token USING chosen WHERE token.id = chosen.id
RETURNING 1;

-- name: take_tokens
-- Take from a bucket if it has enough: `capacity` is a full bucket in microseconds, `cost` what is taken. A bucket that
-- is more than empty shows that the clock was set back, and counts as full.
INSERT INTO {schema}.bucket (name, full_at, at) VALUES (%(name)s, {now} + %(cost)s::bigint, {now})
ON CONFLICT (name) DO UPDATE SET full_at = {now} + {taken} + %(cost)s::bigint, at = excluded.at
WHERE {taken} + %(cost)s::bigint <= %(capacity)s::bigint
RETURNING 1;

-- name: wait_for_tokens
-- Microseconds until a bucket has enough.
SELECT full_at + %(cost)s::bigint - %(capacity)s::bigint - {now} FROM {schema}.bucket WHERE name = %(name)s;
