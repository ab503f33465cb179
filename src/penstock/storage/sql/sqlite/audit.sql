-- Statements about the audit: which operator changed what.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: save_audit
-- Which operator changed what.
INSERT INTO audit (at, actor, action, target, before, after, request_id)
SELECT :now, actor, action, target, before, after, request_id FROM {input} ORDER BY rowid;

-- name: read_audit
-- What operators changed, the newest first.
SELECT seq, at, actor, action, target, before, after, request_id FROM audit
WHERE {filters} AND seq < coalesce(:before, 9223372036854775807) ORDER BY seq DESC LIMIT :limit;

-- name: audit_by
-- Changes that one made.
actor = :actor

-- name: audit_of
-- Changes of one kind.
action = :action

-- name: audit_to
-- Changes of one thing.
target = :target
