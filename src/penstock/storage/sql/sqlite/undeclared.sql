-- Statements for definitions that no code declares any more.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- let counted: (SELECT lane, status, n FROM tally UNION ALL SELECT lane, status, n FROM tally_delta) AS counted

-- name: versions_of
-- The versions of a definition and their lanes, without those that were removed.
SELECT version, lane FROM definition WHERE key = :key AND removed_at IS NULL ORDER BY version;

-- name: unfinished_of
-- How many jobs of these lanes have not ended, by status.
SELECT status, sum(n) FROM {counted} WHERE lane IN (SELECT value FROM json_each(:lanes)) AND status IN {active}
GROUP BY status HAVING sum(n) > 0 ORDER BY status;

-- name: mark_removed
-- Definitions of these lanes are removed; their rows stay, because ended jobs name them.
UPDATE definition SET removed_at = :now WHERE lane IN (SELECT value FROM json_each(:lanes));

-- name: return_retired
-- Definitions with these keys are retired no longer.
UPDATE control SET retired_at = NULL, retired_by = NULL, revision = revision + 1
WHERE key IN (SELECT key FROM {input}) AND retired_at IS NOT NULL RETURNING key;

-- name: hold_keys_of_lanes
-- The controls of these lanes' definitions; none is removed in this transaction.
SELECT key FROM control
WHERE key IN (SELECT key FROM definition WHERE lane IN (SELECT value FROM json_each(:lanes))) ORDER BY key;

-- name: closed_lanes
-- Which of these lanes are retired or removed.
SELECT lane, key, version, retired_by, removed_at IS NOT NULL FROM definition JOIN control USING (key)
WHERE lane IN (SELECT value FROM json_each(:lanes)) AND (retired_at IS NOT NULL OR removed_at IS NOT NULL) ORDER BY lane;

-- name: note_declared
-- Code declares the definitions that live workers have loaded; this is written once an hour.
UPDATE definition SET declared_at = :now
WHERE lane IN (SELECT value FROM json_each(:lanes)) AND declared_at < :now - 3600000000;

-- name: show_unfinished
-- Definitions that were removed while a transaction created a job of them are shown again.
UPDATE definition SET removed_at = NULL WHERE removed_at IS NOT NULL
    AND (SELECT sum(n) FROM {counted} WHERE counted.lane = definition.lane AND status IN {active}) > 0
RETURNING key, version;
