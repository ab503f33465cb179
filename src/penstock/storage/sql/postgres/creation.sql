-- Statements of the jobs port: creating.
-- {now} is the instant given by the caller, or else the database's own clock; other {names} are let here.

-- let ageing: coalesce((SELECT value::bigint FROM {schema}.setting WHERE name = 'ageing'), 600000000)
-- let open: control.enabled AND control.retired_at IS NULL AND definition.removed_at IS NULL
-- let expired: known.expires_at <= (SELECT now FROM clock) AND NOT EXISTS (SELECT FROM {schema}.job WHERE job.id = known.job_id AND job.status IN {active})
-- let said:
CASE WHEN %(priority_given)s::boolean THEN %(priority)s::smallint ELSE coalesce(control.priority, %(priority)s::smallint) END AS urgency,
    CASE WHEN %(attempts_given)s::boolean THEN %(max_attempts)s::smallint
    ELSE coalesce(control.max_attempts, %(max_attempts)s::smallint) END AS attempts

-- let of_one: CASE WHEN cardinality(ids) = 1 THEN ids[1] END
-- let of_many: CASE WHEN cardinality(ids) > 1 THEN ids[place:place + 999] END
-- let places: generate_series(1, cardinality(ids), 1000) AS place

-- name: claim_keys
-- Take idempotency keys in order; a key that is taken and not expired returns its job.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(
        %(definition)s::text[], %(scope)s::text[], %(key)s::text[], %(id)s::uuid[], %(digest)s::text[], %(life)s::bigint[]
    ) AS input (definition, scope, key, id, digest, life)
)
INSERT INTO {schema}.idempotency AS known (definition, scope, key, job_id, digest, expires_at)
SELECT definition, scope, key, id, digest, now + life FROM input CROSS JOIN clock ORDER BY definition, scope, key
ON CONFLICT (definition, scope, key) DO UPDATE SET
    job_id = CASE WHEN {expired} THEN excluded.job_id ELSE known.job_id END,
    digest = CASE WHEN {expired} THEN excluded.digest ELSE known.digest END,
    expires_at = CASE WHEN {expired} THEN excluded.expires_at ELSE known.expires_at END
RETURNING definition, scope, key, job_id::text, digest;

-- name: move_keys
-- Point idempotency keys to other jobs than they were taken for.
UPDATE {schema}.idempotency AS known SET job_id = input.id
FROM unnest(%(definition)s::text[], %(scope)s::text[], %(key)s::text[], %(id)s::uuid[])
    AS input (definition, scope, key, id)
WHERE (known.definition, known.scope, known.key) = (input.definition, input.scope, input.key);

-- name: create_one
-- Insert one plain job with its details, event and count; nothing when it exists or is refused.
WITH clock AS (SELECT {now} AS now),
born AS (
    INSERT INTO {schema}.job (
        id, lane, status, priority, max_attempts, due_at, rank, created_at, updated_at, queued_at
    )
    SELECT %(id)s::uuid, definition.lane, CASE WHEN at > now THEN {scheduled} ELSE {queued} END, urgency, attempts, at,
        at - urgency * {ageing}, now, now,
        CASE WHEN at > now THEN NULL ELSE now END
    FROM clock CROSS JOIN LATERAL (SELECT greatest(coalesce(%(due)s::bigint, now + %(delay)s::bigint), now) AS at) AS time
    CROSS JOIN {schema}.definition JOIN {schema}.control USING (key)
    CROSS JOIN LATERAL (SELECT {said}) AS said
    WHERE definition.lane = %(lane)s::integer AND {open}
    ON CONFLICT DO NOTHING
    RETURNING id, lane, status, priority, created_at
),
detailed AS (
    INSERT INTO {schema}.job_detail (
        id, lane, params, reference_type, reference_id, webhook_url, schedule, scheduled_for, parent, rerun_of,
        traceparent, actor, schedule_priority
    )
    SELECT id, lane, %(params)s, %(reference_type)s, %(reference_id)s, %(webhook_url)s, %(schedule)s,
        %(scheduled_for)s::bigint, %(parent)s::uuid, %(rerun_of)s::uuid, %(traceparent)s, %(actor)s,
        CASE WHEN %(schedule)s::text IS NOT NULL THEN priority END
    FROM born
),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id) SELECT created_at, 'job.enqueued', id FROM born
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n) SELECT lane, created_at / 60000000, status, 1 FROM born
)
SELECT id::text, status FROM born;

-- name: create_uniform
-- Insert jobs that differ only in id and parameters; return how many were inserted, in which status, and if not all,
-- which. Existing ones are left out; they are searched only when an insert fails.
WITH clock AS (SELECT {now} AS now),
time AS MATERIALIZED (SELECT now, greatest(coalesce(%(due)s::bigint, now + %(delay)s::bigint), now) AS at FROM clock),
said AS MATERIALIZED (
    SELECT {said} FROM {schema}.definition JOIN {schema}.control USING (key)
    WHERE definition.lane = %(lane)s::integer AND {open}
),
detailed AS (
    INSERT INTO {schema}.job_detail (
        id, lane, params, reference_type, reference_id, webhook_url, schedule, scheduled_for, parent, rerun_of,
        traceparent, actor, schedule_priority
    )
    SELECT id, %(lane)s::integer, params, %(reference_type)s, %(reference_id)s, %(webhook_url)s, %(schedule)s,
        %(scheduled_for)s::bigint, %(parent)s::uuid, %(rerun_of)s::uuid, %(traceparent)s, %(actor)s,
        CASE WHEN %(schedule)s::text IS NOT NULL THEN urgency END
    FROM unnest(%(id)s::uuid[], %(params)s::text[]) AS input (id, params) CROSS JOIN said
    {unless_there}
    RETURNING id
),
born AS (
    INSERT INTO {schema}.job (id, lane, status, priority, max_attempts, due_at, rank, created_at, updated_at, queued_at)
    SELECT id, %(lane)s::integer, CASE WHEN at > now THEN {scheduled} ELSE {queued} END, urgency, attempts,
        at, at - urgency * {ageing}, now, now, CASE WHEN at > now THEN NULL ELSE now END
    FROM detailed CROSS JOIN time CROSS JOIN said
),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, jobs) SELECT now, 'job.enqueued', {of_one}, {of_many}
    FROM (SELECT array_agg(id) AS ids FROM detailed) AS batch CROSS JOIN {places} CROSS JOIN clock
),
made AS (
    SELECT count(*) AS n, CASE WHEN count(*) < %(n)s::bigint THEN string_agg(id::text, ',') END AS ids FROM detailed
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n)
    SELECT %(lane)s::integer, now / 60000000, CASE WHEN at > now THEN {scheduled} ELSE {queued} END, n FROM made CROSS JOIN time WHERE n > 0
)
SELECT n, CASE WHEN at > now THEN {scheduled} ELSE {queued} END, ids FROM made CROSS JOIN time;

-- name: create_jobs
-- Insert jobs with their details, events and counts; existing and refused ones are not returned.
WITH clock AS (SELECT {now} AS now),
input AS (
    SELECT * FROM unnest(
        %(id)s::uuid[], %(lane)s::integer[], %(priority)s::smallint[], %(max_attempts)s::smallint[],
        %(due)s::bigint[], %(delay)s::bigint[], %(limit_key)s::text[], %(unique_key)s::text[], %(params)s::text[],
        %(reference_type)s::text[], %(reference_id)s::text[], %(tags)s::text[], %(idempotency_key)s::text[],
        %(webhook_url)s::text[], %(schedule)s::text[], %(scheduled_for)s::bigint[], %(parent)s::uuid[],
        %(rerun_of)s::uuid[], %(traceparent)s::text[], %(actor)s::text[], %(priority_given)s::boolean[],
        %(attempts_given)s::boolean[]
    ) AS input (
        id, lane, priority, max_attempts, due, delay, limit_key, unique_key, params, reference_type, reference_id,
        tags, idempotency_key, webhook_url, schedule, scheduled_for, parent, rerun_of, traceparent, actor,
        priority_given, attempts_given
    )
),
born AS (
    INSERT INTO {schema}.job (
        id, lane, status, priority, max_attempts, due_at, rank, blocked, limit_key, unique_key,
        created_at, updated_at, queued_at
    )
    SELECT id, input.lane, CASE WHEN at > now THEN {scheduled} ELSE {queued} END, urgency, attempts, at,
        at - urgency * {ageing}, at <= now AND limit_key IS NOT NULL, limit_key, unique_key,
        now, now, CASE WHEN at > now THEN NULL ELSE now END
    FROM input CROSS JOIN clock
    CROSS JOIN LATERAL (SELECT greatest(coalesce(due, now + delay), now) AS at) AS time
    JOIN {schema}.definition ON definition.lane = input.lane JOIN {schema}.control USING (key)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN priority_given THEN input.priority ELSE coalesce(control.priority, input.priority) END AS urgency,
            CASE WHEN attempts_given THEN input.max_attempts ELSE coalesce(control.max_attempts, input.max_attempts) END AS attempts
    ) AS said
    WHERE {open}
    ON CONFLICT DO NOTHING
    RETURNING id, lane, status, priority, created_at
),
detailed AS (
    INSERT INTO {schema}.job_detail (
        id, lane, params, reference_type, reference_id, tags, idempotency_key, webhook_url, schedule,
        scheduled_for, parent, rerun_of, traceparent, actor, schedule_priority
    )
    SELECT input.id, input.lane, params, reference_type, reference_id, tags, idempotency_key, webhook_url, schedule,
        scheduled_for, parent, rerun_of, traceparent, actor, CASE WHEN schedule IS NOT NULL THEN born.priority END
    FROM input JOIN born ON born.id = input.id
),
told AS (
    INSERT INTO {schema}.event (at, kind, job_id, jobs) SELECT at, 'job.enqueued', {of_one}, {of_many}
    FROM (SELECT min(created_at) AS at, array_agg(id) AS ids FROM born) AS batch CROSS JOIN {places}
),
counted AS (
    INSERT INTO {schema}.tally_delta (lane, minute, status, n)
    SELECT lane, min(created_at) / 60000000, status, count(*) FROM born GROUP BY lane, status
)
SELECT id::text, status FROM born;

-- name: tag_jobs
-- Insert the tags of jobs.
INSERT INTO {schema}.job_tag (tag, id, priority)
SELECT tag, job.id, job.priority FROM unnest(%(tag)s::text[], %(id)s::uuid[]) AS input (tag, id)
JOIN {schema}.job ON job.id = input.id
ON CONFLICT DO NOTHING;

-- name: find_jobs
-- Jobs by id: the stored status and the current one.
SELECT id::text, status, CASE WHEN stale_at <= {now} THEN {stale} ELSE status END
FROM {schema}.job WHERE id = ANY(%(id)s::uuid[]);

-- name: find_unique
-- The active jobs with these unique keys.
SELECT unique_key, id::text, status FROM {schema}.job
WHERE unique_key = ANY(%(unique_key)s::text[]) AND unique_key IS NOT NULL AND status IN {active};

-- name: find_refusing
-- Which of these lanes refuse jobs, and why: unknown, or disabled, retired or removed by an operator.
SELECT input.lane, control.key, definition.version, control.retired_by, definition.removed_at IS NOT NULL FROM unnest(%(lane)s::integer[]) AS input (lane)
LEFT JOIN {schema}.definition ON definition.lane = input.lane
LEFT JOIN {schema}.control ON control.key = definition.key
WHERE ({open}) IS NOT TRUE;
