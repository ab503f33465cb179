-- Statements of the jobs port about workers: their leases, and the jobs that they hold.
-- {now} is the instant given by the caller, or else the database's own clock.

-- let ownerless: job.worker IS NOT NULL AND (worker.id IS NULL OR worker.ended IS NOT NULL)

-- name: register_worker
-- Register a worker: begin its lease, and write its event.
WITH registered AS (
    INSERT INTO {schema}.worker (id, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, lease_until)
    VALUES (%(id)s::uuid, %(name)s, %(host)s, %(pid)s, %(lanes)s, %(slots)s, %(code_version)s, {now}, {now}, {now} + %(lease)s)
    ON CONFLICT (id) DO NOTHING RETURNING id::text
)
INSERT INTO {schema}.event (at, kind, subject) SELECT {now}, 'worker.started', id FROM registered;

-- name: heartbeat
-- Extend a live worker's lease; a lease that has ended stays ended, without an answer. The worker learns which jobs
-- to cancel, the state of the controls, the schema's version, how many workers live, and which has been there longest.
WITH beat AS (
    UPDATE {schema}.worker SET heartbeat_at = {now}, lease_until = {now} + %(lease)s,
        lanes = coalesce(%(lanes)s, lanes), slots = coalesce(%(slots)s, slots), duties = coalesce(%(duties)s::text, duties),
        duties_at = CASE WHEN %(duties)s::text IS NULL THEN duties_at ELSE {now} END, figures = coalesce(%(figures)s::text, figures)
    WHERE id = %(worker)s::uuid AND ended IS NULL AND lease_until > {now} RETURNING id
)
SELECT job.id::text, job.fence, controls.revision, newest.version,
    fleet.size, fleet.leader
FROM beat CROSS JOIN (
    SELECT count(*) AS size, min(id::text) AS leader FROM {schema}.worker WHERE ended IS NULL AND lease_until > {now}
) AS fleet
CROSS JOIN (SELECT coalesce(max(revision), 0) AS revision FROM {schema}.setting WHERE name = 'controls') AS controls
CROSS JOIN (SELECT max(version) AS version FROM {schema}.migration) AS newest
LEFT JOIN {schema}.job ON job.worker = %(worker)s::uuid AND job.status = {cancelling};

-- name: clock
-- What time it is to this store.
SELECT {now};

-- name: leader
-- The live worker that has been there longest.
SELECT min(id::text) FROM {schema}.worker WHERE ended IS NULL AND lease_until > {now};

-- name: has_expired_workers
-- Whether a worker's lease ended longer ago than the grace, or the worker of a live job has ended or is unknown.
SELECT 1 WHERE EXISTS (SELECT FROM {schema}.worker WHERE ended IS NULL AND lease_until + %(grace)s < {now})
    OR EXISTS (
        SELECT FROM {schema}.job LEFT JOIN {schema}.worker ON worker.id = job.worker
        WHERE {ownerless}
    );

-- name: expired_workers
-- Lock workers whose lease ended longer ago than the grace.
SELECT id::text FROM {schema}.worker WHERE ended IS NULL AND lease_until + %(grace)s < {now}
ORDER BY lease_until, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: ownerless_jobs
-- Live jobs whose worker has ended or is unknown.
SELECT DISTINCT job.worker::text FROM {schema}.job LEFT JOIN {schema}.worker ON worker.id = job.worker
WHERE {ownerless};

-- name: worker_jobs
-- Lock the live jobs of a worker.
SELECT job.id::text, job.fence, job.attempt, job.max_attempts, job.lost, job.started_at IS NOT NULL, job.lane
FROM {schema}.job WHERE job.worker = %(worker)s::uuid ORDER BY job.id LIMIT %(limit)s FOR UPDATE;

-- name: lane_bodies
-- The definitions of these lanes, whole, and what operators want instead.
SELECT lane, body, overrides FROM {schema}.definition JOIN {schema}.control USING (key)
WHERE lane = ANY(%(lane)s::integer[]);

-- name: hold_worker
-- Lock a worker's row against claims.
SELECT 1 FROM {schema}.worker WHERE id = %(worker)s::uuid FOR UPDATE;

-- name: end_worker
-- A worker has stopped or was lost.
UPDATE {schema}.worker SET ended = %(ended)s, lease_until = least(lease_until, {now})
WHERE id = %(worker)s::uuid AND ended IS NULL RETURNING id::text;
