-- Statements about the audit: which operator changed what.
-- {now} is the instant given by the caller, or else the database's own clock.

-- name: save_audit
-- Insert audit entries.
INSERT INTO {schema}.audit (at, actor, action, target, before, after, request_id)
SELECT {now}, actor, action, target, before, after, request_id FROM unnest(
    %(actor)s::text[], %(action)s::text[], %(target)s::text[], %(before)s::text[], %(after)s::text[],
    %(request_id)s::text[]
) WITH ORDINALITY AS input (actor, action, target, before, after, request_id, n) ORDER BY n;

-- name: read_audit
-- Audit entries, the newest first.
SELECT seq, at, actor, action, target, before, after, request_id FROM {schema}.audit
WHERE {filters} AND seq < coalesce(%(before)s::bigint, 9223372036854775807) ORDER BY seq DESC LIMIT %(limit)s;

-- name: audit_by
-- Changes by one actor.
actor = %(actor)s

-- name: audit_of
-- Changes of one kind.
action = %(action)s

-- name: audit_to
-- Changes of one target.
target = %(target)s
