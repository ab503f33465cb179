-- Statements for definitions that no code declares any more.
-- {now} is the instant given by the caller, or else the database's own clock.

-- let counted: (SELECT lane, status, n FROM {schema}.tally UNION ALL SELECT lane, status, n FROM {schema}.tally_delta) AS counted

-- name: versions_of
-- The versions of a definition and their lanes, without those that were removed.
SELECT version, lane FROM {schema}.definition WHERE key = %(key)s AND removed_at IS NULL ORDER BY version;

-- name: unfinished_of
-- How many jobs of these lanes have not ended, by status.
SELECT status, sum(n)::bigint FROM {counted} WHERE lane = ANY(%(lanes)s::integer[]) AND status IN {active}
GROUP BY status HAVING sum(n) > 0 ORDER BY status;

-- name: mark_removed
-- Definitions of these lanes are removed; their rows stay, because ended jobs name them.
UPDATE {schema}.definition SET removed_at = {now} WHERE lane = ANY(%(lanes)s::integer[]);

-- name: return_retired
-- Definitions with these keys are retired no longer.
UPDATE {schema}.control SET retired_at = NULL, retired_by = NULL, revision = control.revision + 1
WHERE key = ANY(%(key)s::text[]) AND retired_at IS NOT NULL RETURNING key;

-- name: hold_keys_of_lanes
-- Lock the controls of these lanes' definitions, so that none is removed meanwhile.
SELECT key FROM {schema}.control
WHERE key IN (SELECT key FROM {schema}.definition WHERE lane = ANY(%(lanes)s::integer[])) ORDER BY key FOR KEY SHARE;

-- name: closed_lanes
-- Which of these lanes are retired or removed.
SELECT lane, key, version, retired_by, removed_at IS NOT NULL FROM {schema}.definition JOIN {schema}.control USING (key)
WHERE lane = ANY(%(lanes)s::integer[]) AND (retired_at IS NOT NULL OR removed_at IS NOT NULL) ORDER BY lane;

-- name: note_declared
-- Code declares the definitions that live workers have loaded; this is written once an hour.
UPDATE {schema}.definition SET declared_at = {now}
WHERE lane = ANY(%(lanes)s::integer[]) AND declared_at < {now} - 3600000000;

-- name: show_unfinished
-- Definitions that were removed while a transaction created a job of them are shown again.
UPDATE {schema}.definition SET removed_at = NULL WHERE removed_at IS NOT NULL
    AND (SELECT sum(n) FROM {counted} WHERE counted.lane = definition.lane AND status IN {active}) > 0
RETURNING key, version;
