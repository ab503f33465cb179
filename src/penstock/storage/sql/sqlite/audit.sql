-- Statements about the audit: which operator changed what.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: save_audit
-- Insert audit entries.
INSERT INTO audit (at, actor, action, target, before, after, request_id)
SELECT :now, actor, action, target, before, after, request_id FROM {input} ORDER BY rowid;

-- name: read_audit
-- Audit entries, the newest first.
SELECT seq, at, actor, action, target, before, after, request_id FROM audit
WHERE {filters} AND seq < coalesce(:before, 9223372036854775807) ORDER BY seq DESC LIMIT :limit;

-- name: audit_by
-- Changes by one actor.
actor = :actor

-- name: audit_of
-- Changes of one kind.
action = :action

-- name: audit_to
-- Changes of one target.
target = :target
