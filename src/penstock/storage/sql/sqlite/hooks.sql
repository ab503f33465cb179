-- Statements about the outbox of hooks: what is to be told to handlers' own code.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: save_hooks
-- Calls to be made, in this order.
INSERT INTO hook (lane, job_id, fence, kind, data, at)
SELECT lane, job_id, fence, kind, data, :now FROM {input} ORDER BY rowid;

-- name: take_hooks
-- Remove the oldest calls of these lanes and give them to whoever asked.
DELETE FROM hook WHERE seq IN (
    SELECT seq FROM hook WHERE lane IN (SELECT value FROM json_each(:lanes)) ORDER BY seq LIMIT :limit
)
RETURNING seq, job_id, lane, fence, kind, data, at;

-- name: drop_old_hooks
-- Calls that nobody has taken for long.
DELETE FROM hook WHERE seq IN (SELECT seq FROM hook WHERE at < :now - :age ORDER BY at LIMIT :limit) RETURNING 1;
