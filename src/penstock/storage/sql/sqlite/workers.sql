-- Statements of the jobs port about workers: their leases, and the jobs that they hold.
-- :now is the wall clock, :steady and :boot the clock of leases; {input} is the table of the rows handed in.
-- A lease that was extended next to the file lasts until extended_until(id); 0 for others.

-- let leased: ended IS NULL AND boot = :boot AND (lease_until > :steady OR extended_until(id) > :steady)
-- let over: boot <> :boot OR (lease_until + :grace < :steady AND extended_until(id) + :grace < :steady)
-- let ownerless: job.worker IS NOT NULL AND (worker.id IS NULL OR worker.ended IS NOT NULL)

-- name: register_worker
-- Register a worker: begin its lease, and write its event.
INSERT INTO worker (id, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, boot, lease_until)
VALUES (:id, :name, :host, :pid, :lanes, :slots, :code_version, :now, :now, :boot, :steady + :lease)
ON CONFLICT (id) DO NOTHING;
INSERT INTO event (at, kind, subject) SELECT :now, 'worker.started', :id WHERE changes() > 0;

-- name: heartbeat
-- Extend a live worker's lease; a lease that has ended stays ended, without an answer. The worker learns which jobs
-- to cancel, the state of the controls, the schema's version, how many workers live, and which has been there longest.
UPDATE worker SET heartbeat_at = :now, lease_until = :steady + :lease,
    lanes = coalesce(:lanes, lanes), slots = coalesce(:slots, slots), duties = coalesce(:duties, duties),
    duties_at = CASE WHEN :duties IS NULL THEN duties_at ELSE :now END, figures = coalesce(:figures, figures)
WHERE id = :worker AND {leased};
SELECT job.id, job.fence, controls.revision, newest.version, fleet.size, fleet.leader
FROM (SELECT count(*) AS size, min(id) AS leader FROM worker WHERE {leased}) AS fleet
CROSS JOIN (SELECT coalesce(max(revision), 0) AS revision FROM setting WHERE name = 'controls') AS controls
CROSS JOIN (SELECT max(version) AS version FROM migration) AS newest
LEFT JOIN job ON job.worker = :worker AND job.status = {cancelling}
WHERE EXISTS (SELECT 1 FROM worker WHERE id = :worker AND {leased});

-- name: clock
-- What time it is to this store.
SELECT :now;

-- name: leader
-- The live worker that has been there longest.
SELECT min(id) FROM worker WHERE {leased};

-- name: has_expired_workers
-- Whether a worker's lease ended longer ago than the grace or in an earlier boot, or the worker of a live job has ended
-- or is unknown.
SELECT 1 WHERE EXISTS (SELECT 1 FROM worker WHERE ended IS NULL AND ({over}))
    OR EXISTS (
        SELECT 1 FROM job LEFT JOIN worker ON worker.id = job.worker
        WHERE {ownerless}
    );

-- name: expired_workers
-- Workers whose lease ended longer ago than the grace, or in an earlier boot of this host.
SELECT id FROM worker WHERE ended IS NULL AND ({over})
ORDER BY lease_until, id LIMIT :limit;

-- name: ownerless_jobs
-- Live jobs whose worker has ended or is unknown.
SELECT DISTINCT job.worker FROM job LEFT JOIN worker ON worker.id = job.worker
WHERE {ownerless};

-- name: worker_jobs
-- The live jobs of a worker.
SELECT id, fence, attempt, max_attempts, lost, started_at IS NOT NULL, lane
FROM job WHERE worker = :worker ORDER BY id LIMIT :limit;

-- name: lane_bodies
-- The definitions of these lanes, whole, and what operators want instead.
SELECT definition.lane, body, overrides FROM {input} AS input JOIN definition ON definition.lane = input.lane
JOIN control USING (key);

-- name: hold_worker
-- A worker's row; the transaction is the only writer.
SELECT 1 FROM worker WHERE id = :worker;

-- name: end_worker
-- A worker has stopped or was lost.
UPDATE worker SET ended = :ended, lease_until = min(lease_until, :steady)
WHERE id = :worker AND ended IS NULL RETURNING id;
