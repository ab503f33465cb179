-- Statements about the outbox of hook calls.
-- :now is the wall clock; {input} is the table of the rows handed in.

-- name: save_hooks
-- Insert hook calls, in this order.
INSERT INTO hook (lane, job_id, fence, kind, data, at)
SELECT lane, job_id, fence, kind, data, :now FROM {input} ORDER BY rowid;

-- name: take_hooks
-- Delete the oldest calls of these lanes and return them.
DELETE FROM hook WHERE seq IN (
    SELECT seq FROM hook WHERE lane IN (SELECT value FROM json_each(:lanes)) ORDER BY seq LIMIT :limit
)
RETURNING seq, job_id, lane, fence, kind, data, at;

-- name: drop_old_hooks
-- Delete calls that no worker has taken for long.
DELETE FROM hook WHERE seq IN (SELECT seq FROM hook WHERE at < :now - :age ORDER BY at LIMIT :limit) RETURNING 1;
