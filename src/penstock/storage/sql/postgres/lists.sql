-- Statements of the admin port that list and count jobs: one for each index along which they can be found.
-- {now} is the instant given by the caller, or else the database's own clock; {filters}, {along}, {among}, {order} and {answer} are put in.
-- A list finds the ids of its page first; `walked` is what is walked along. Ids are between after and before.
-- OFFSET 0 keeps the planner from turning a join around: the caller chooses what is walked along.

-- let told_now: CASE WHEN job.stale_at <= (SELECT {now}) THEN {stale} ELSE job.status END
-- let its_error: coalesce(CASE review.decision WHEN 'rejected' THEN coalesce(review.decided_note, 'Rejected.') END, attempt.error)
-- let its_error_type: CASE review.decision WHEN 'rejected' THEN 'Rejected' ELSE attempt.error_type END
-- let job: job.id::text, definition.key, definition.version, {told_now}, job.status, detail.params, CASE WHEN job.status = {succeeded} THEN coalesce(review.result, attempt.result, CASE WHEN job.done_by IS NOT NULL THEN 'null' END) END, {its_error}, {its_error_type}, job.attempt, job.max_attempts, job.lost, job.fence, job.generation, job.priority, progress.percent, progress.message, progress.phase, detail.reference_type, detail.reference_id, detail.tags, detail.idempotency_key, job.limit_key, job.unique_key, job.blocked, detail.webhook_url, detail.schedule, detail.scheduled_for, detail.parent::text, detail.rerun_of::text, detail.actor, job.created_at, job.due_at, job.queued_at, job.started_at, job.finished_at, job.updated_at, job.stale_at, job.cancel_at, job.worker::text, (SELECT bool_or(delivery.status = 'delivered') FROM {schema}.delivery WHERE delivery.job_id = job.id), coalesce(attempt.ended_at, CASE WHEN job.done_by IS NOT NULL THEN job.finished_at END)
-- let whole: FROM page AS walked CROSS JOIN LATERAL (SELECT * FROM {schema}.job WHERE job.id = walked.id OFFSET 0) AS job CROSS JOIN LATERAL (SELECT * FROM {schema}.job_detail WHERE job_detail.id = walked.id OFFSET 0) AS detail JOIN {schema}.definition ON definition.lane = job.lane LEFT JOIN LATERAL (SELECT * FROM {schema}.attempt WHERE attempt.job_id = walked.id AND attempt.fence = job.fence OFFSET 0) AS attempt ON true LEFT JOIN LATERAL (SELECT * FROM {schema}.review WHERE review.job_id = walked.id AND review.fence = job.fence OFFSET 0) AS review ON true LEFT JOIN LATERAL (SELECT * FROM {schema}.progress WHERE progress.job_id = walked.id OFFSET 0) AS progress ON true
-- let its_job: CROSS JOIN LATERAL (SELECT * FROM {schema}.job WHERE job.id = walked.id OFFSET 0) AS job
-- let job_between: job.id > %(after)s::uuid AND job.id < %(before)s::uuid
-- let group: job.lane = definition.lane AND job.status = stood.code / 2 AND job.retired = (stood.code & 1 = 1)
-- let groups: {schema}.definition CROSS JOIN unnest(%(groups)s::smallint[]) AS stood (code)
-- let of_key: (%(key)s::text IS NULL OR definition.key = %(key)s::text)
-- let overdue: %(overdue)s::boolean AND job.retire_at <= (SELECT {now}) AND NOT job.retired AND job.status * 2 <> ALL(%(groups)s::smallint[])
-- let unended: SELECT id FROM {schema}.job WHERE %(scheduled)s::boolean AND job.status = {scheduled} UNION ALL SELECT id FROM {schema}.job WHERE %(queued)s::boolean AND job.status = {queued} AND NOT job.blocked UNION ALL SELECT id FROM {schema}.job WHERE %(queued)s::boolean AND job.blocked UNION ALL SELECT id FROM {schema}.job WHERE %(running)s::boolean AND job.worker IS NOT NULL UNION ALL SELECT id FROM {schema}.job WHERE %(review)s::boolean AND job.status = {review_needed} AND job.status IN {attention}
-- let sortable: job.id, job.priority
-- let by_end: job.id, job.finished_at
-- let fits: CASE WHEN {filters} THEN 1 END AS fits
-- let not_ended: UNION ALL SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE %(scheduled)s::boolean AND job.status = {scheduled} OFFSET 0) AS job WHERE {filters} UNION ALL SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE %(queued)s::boolean AND job.status = {queued} AND NOT job.blocked OFFSET 0) AS job WHERE {filters} UNION ALL SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE %(queued)s::boolean AND job.blocked OFFSET 0) AS job WHERE {filters} UNION ALL SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE %(running)s::boolean AND job.worker IS NOT NULL OFFSET 0) AS job WHERE {filters} UNION ALL SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE %(review)s::boolean AND job.status = {review_needed} AND job.status IN {attention} OFFSET 0) AS job WHERE {filters}
-- let first_of_found: page AS MATERIALIZED (SELECT job.id FROM found AS job ORDER BY {order} LIMIT %(limit)s) {answer}

-- name: order_created_up
-- The oldest first; ids contain their time.
job.id

-- name: order_created_down
-- The newest first.
job.id DESC

-- name: order_walked_up
-- The oldest first, in the order of the walked index.
walked.id

-- name: order_walked_down
-- The newest first, in the order of the walked index.
walked.id DESC

-- name: order_finished_up
-- Those that ended first come first.
job.finished_at, job.id

-- name: order_finished_down
-- Those that ended last come first.
job.finished_at DESC, job.id DESC

-- name: order_priority_up
-- The least urgent first.
job.priority, job.id

-- name: order_priority_down
-- The most urgent first.
job.priority DESC, job.id DESC

-- name: order_walked_priority_up
-- The least urgent first, in the order of the walked index.
walked.priority, walked.id

-- name: order_walked_priority_down
-- The most urgent first, in the order of the walked index.
walked.priority DESC, walked.id DESC

-- name: past_finished_up
-- Jobs after the last one of a page.
(job.finished_at, job.id) > (%(past_key)s::bigint, %(past_id)s::uuid)

-- name: past_finished_down
-- Jobs after the last one of a page.
(job.finished_at, job.id) < (%(past_key)s::bigint, %(past_id)s::uuid)

-- name: past_priority_up
-- Jobs after the last one of a page.
(job.priority, job.id) > (%(past_key)s::smallint, %(past_id)s::uuid)

-- name: past_priority_down
-- Jobs after the last one of a page.
(job.priority, job.id) < (%(past_key)s::smallint, %(past_id)s::uuid)

-- name: past_walked_priority_up
-- Jobs after the last one of a page, in the order of the walked index.
(walked.priority, walked.id) > (%(past_key)s::smallint, %(past_id)s::uuid)

-- name: past_walked_priority_down
-- Jobs after the last one of a page, in the order of the walked index.
(walked.priority, walked.id) < (%(past_key)s::smallint, %(past_id)s::uuid)

-- name: past_span
-- Jobs with ids between these two.
{job_between}

-- name: past_span_aside
-- The same, without the index on ids.
(job.id > %(after)s::uuid AND job.id < %(before)s::uuid) IS TRUE

-- name: past_span_walked
-- The same on the walked index.
walked.id > %(after)s::uuid AND walked.id < %(before)s::uuid

-- name: past_span_walked_aside
-- The same, without the index on ids.
(walked.id > %(after)s::uuid AND walked.id < %(before)s::uuid) IS TRUE

-- name: within_finished
-- Jobs that ended within a span of time.
job.finished_at BETWEEN %(ended_from)s AND %(ended_to)s

-- name: filter_finished
-- Jobs that have ended.
job.finished_at IS NOT NULL

-- name: check_tag
-- Jobs with this tag, looked up job by job.
EXISTS (SELECT FROM {schema}.job_tag WHERE job_tag.tag = %(filter_tag)s AND job_tag.id = job.id OFFSET 0)

-- name: check_walked_tag
-- The same on the walked index, before the job itself is read.
EXISTS (SELECT FROM {schema}.job_tag WHERE job_tag.tag = %(filter_tag)s AND job_tag.id = walked.id OFFSET 0)

-- name: check_fingerprint
-- Jobs with an attempt that failed this way, looked up job by job.
EXISTS (SELECT FROM {schema}.attempt WHERE attempt.fingerprint = %(filter_fingerprint)s AND attempt.job_id = job.id OFFSET 0)

-- name: check_schedule_id
-- Jobs that this schedule made, looked up job by job.
EXISTS (SELECT FROM {schema}.job_detail WHERE job_detail.id = job.id AND job_detail.schedule = %(filter_schedule_id)s OFFSET 0)

-- name: check_parent_id
-- Jobs that this job created, looked up job by job.
EXISTS (SELECT FROM {schema}.job_detail WHERE job_detail.id = job.id AND job_detail.parent = %(filter_parent_id)s::uuid OFFSET 0)

-- name: check_reference_type
-- Jobs that refer to a thing of this type, looked up job by job.
EXISTS (SELECT FROM {schema}.job_detail WHERE job_detail.id = job.id AND job_detail.reference_type = %(filter_reference_type)s OFFSET 0)

-- name: check_reference_id
-- Jobs that refer to the thing with this id, looked up job by job.
EXISTS (SELECT FROM {schema}.job_detail WHERE job_detail.id = job.id AND job_detail.reference_id = %(filter_reference_id)s OFFSET 0)

-- name: check_status
-- Jobs with one of these statuses now, in a form that the planner does not estimate.
CASE WHEN CASE WHEN job.stale_at <= (SELECT {now}) THEN {stale} ELSE job.status END = ANY(%(filter_status)s::smallint[]) THEN true ELSE false END

-- name: check_created_from
-- Jobs created at this instant or later.
CASE WHEN job.created_at >= %(filter_created_from)s::bigint THEN true ELSE false END

-- name: check_created_to
-- Jobs created before this instant.
CASE WHEN job.created_at < %(filter_created_to)s::bigint THEN true ELSE false END

-- name: check_definition_key
-- Jobs of any version of a definition, by their lane.
CASE WHEN job.lane = ANY(ARRAY(SELECT lane FROM {schema}.definition WHERE key = %(filter_definition_key)s)) THEN true ELSE false END

-- name: along_schedule_id
-- Along the jobs that this schedule made.
walked.schedule = %(filter_schedule_id)s

-- name: along_parent_id
-- Along the jobs that this job created.
walked.parent = %(filter_parent_id)s::uuid

-- name: along_reference_type
-- Along the jobs that refer to a thing of this type.
walked.reference_type = %(filter_reference_type)s

-- name: along_reference_id
-- Along the jobs that refer to the thing with this id.
walked.reference_id = %(filter_reference_id)s

-- name: among_tag
-- Jobs with this tag, by their ids.
SELECT id FROM {schema}.job_tag WHERE tag = %(filter_tag)s

-- name: among_schedule_id
-- Jobs that this schedule made, by their ids.
SELECT id FROM {schema}.job_detail WHERE schedule = %(filter_schedule_id)s

-- name: among_parent_id
-- Jobs that this job created, by their ids.
SELECT id FROM {schema}.job_detail WHERE parent = %(filter_parent_id)s::uuid

-- name: among_reference_type
-- Jobs that refer to a thing of this type, by their ids.
SELECT id FROM {schema}.job_detail WHERE reference_type = %(filter_reference_type)s

-- name: among_reference_id
-- Jobs that refer to the thing of this type and id, by their ids.
SELECT id FROM {schema}.job_detail WHERE reference_type = %(filter_reference_type)s AND reference_id = %(filter_reference_id)s

-- name: among_fingerprint
-- Jobs with an attempt that failed this way, by their ids.
SELECT DISTINCT job_id AS id FROM {schema}.attempt WHERE fingerprint = %(filter_fingerprint)s

-- name: answer_jobs
-- The jobs of a page with all their fields.
SELECT {job}
{whole}
ORDER BY {order}

-- name: answer_ids
-- The ids of a page.
SELECT walked.id::text FROM page AS walked JOIN {schema}.job ON job.id = walked.id ORDER BY {order}

-- name: answer_searched
-- The ids of examined jobs; 1 where everything but the search matches, 2 where error and parameters match as well; the
-- size of these in bytes.
SELECT job.id::text, CASE WHEN {checked} THEN CASE WHEN
    (%(error)s::text IS NULL OR position(%(error)s::text IN lower(concat_ws(': ', {its_error_type}, {its_error}) COLLATE "C")) > 0)
    AND (%(params)s::text IS NULL OR NOT EXISTS (
        SELECT FROM json_each_text(%(params)s::json) AS wanted LEFT JOIN json_each(detail.params::json) AS had ON had.key = wanted.key
        WHERE CASE json_typeof(had.value) WHEN 'string' THEN had.value #>> '{}' WHEN 'object' THEN NULL WHEN 'array' THEN NULL ELSE had.value::text END IS DISTINCT FROM wanted.value
    )) THEN 2 ELSE 1 END ELSE 0 END,
    CASE WHEN %(params)s::text IS NULL THEN 0 ELSE octet_length(detail.params) END + coalesce(octet_length(attempt.error), 0)
FROM page AS walked JOIN {schema}.job ON job.id = walked.id JOIN {schema}.job_detail AS detail ON detail.id = walked.id
LEFT JOIN {schema}.attempt ON attempt.job_id = walked.id AND attempt.fence = job.fence
LEFT JOIN {schema}.review ON review.job_id = walked.id AND review.fence = job.fence
ORDER BY {order}

-- name: read_jobs
-- Jobs that match a filter, in some order. Their ids are found first.
WITH page AS MATERIALIZED (
    SELECT job.id FROM {schema}.job WHERE {filters} ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_tag
-- The same along the jobs with a tag.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM {schema}.job_tag AS walked {its_job}
    WHERE walked.tag = %(filter_tag)s AND {filters}
    ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_tag_priority
-- The same along the priorities of the jobs with a tag.
WITH page AS MATERIALIZED (
    SELECT walked.id, walked.priority FROM {schema}.job_tag AS walked {its_job}
    WHERE walked.tag = %(filter_tag)s AND {filters}
    ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_schedule_priority
-- The same along the priorities of the jobs of a schedule.
WITH page AS MATERIALIZED (
    SELECT walked.id, walked.priority FROM (SELECT id, schedule, schedule_priority AS priority FROM {schema}.job_detail) AS walked
    {its_job} WHERE walked.schedule = %(filter_schedule_id)s AND {filters}
    ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_detail
-- The same along the jobs of a schedule, a parent or a reference.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM {schema}.job_detail AS walked {its_job}
    WHERE {filters} ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_failure
-- The same along the jobs with an attempt that failed in one way.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM (SELECT DISTINCT job_id AS id FROM {schema}.attempt WHERE fingerprint = %(filter_fingerprint)s) AS walked
    {its_job}
    WHERE {filters} ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_lane_up
-- The same along the lanes of a definition, the oldest first.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM {schema}.definition CROSS JOIN LATERAL (
        SELECT walked.id FROM {schema}.job_detail AS walked {its_job}
        WHERE (walked.lane, walked.id) > (definition.lane, %(after)s::uuid) AND (walked.lane, walked.id) < (definition.lane, %(before)s::uuid) AND {filters}
        ORDER BY walked.lane, walked.id LIMIT %(limit)s
    ) AS walked
    WHERE definition.key = %(key)s::text ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_lane_down
-- The same along the lanes of a definition, the newest first.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM {schema}.definition CROSS JOIN LATERAL (
        SELECT walked.id FROM {schema}.job_detail AS walked {its_job}
        WHERE (walked.lane, walked.id) > (definition.lane, %(after)s::uuid) AND (walked.lane, walked.id) < (definition.lane, %(before)s::uuid) AND {filters}
        ORDER BY walked.lane DESC, walked.id DESC LIMIT %(limit)s
    ) AS walked
    WHERE definition.key = %(key)s::text ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_among
-- The same for jobs whose ids are gathered.
WITH page AS MATERIALIZED (
    SELECT job.id FROM {schema}.job WHERE job.id = ANY(ARRAY{among}) AND {filters} ORDER BY {order} LIMIT %(limit)s
)
{answer};

-- name: read_jobs_by_end
-- The same along the ends of jobs, for each lane and outcome.
WITH found AS MATERIALIZED (
    SELECT {by_end} FROM {groups} CROSS JOIN LATERAL (
        SELECT {by_end} FROM {schema}.job
        WHERE {group} AND job.status IN {ended} AND {filters}
        ORDER BY {order} LIMIT %(limit)s
    ) AS job
    WHERE {of_key}
    UNION ALL
    SELECT {by_end} FROM (SELECT * FROM {schema}.job WHERE {overdue} OFFSET 0) AS job WHERE {filters}
),
{first_of_found};

-- name: read_jobs_by_priority
-- The same along the priorities of ended jobs; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN LATERAL (
        SELECT {sortable} FROM {schema}.job
        WHERE {group} AND job.stale_at IS NOT NULL AND {filters}
        ORDER BY {order} LIMIT %(limit)s
    ) AS job
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE {overdue} OFFSET 0) AS job WHERE {filters}
    {not_ended}
),
{first_of_found};

-- name: read_jobs_by_status_up
-- The same in order of creation, by status; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN generate_series(0, 20) AS step (priority) CROSS JOIN LATERAL (
        SELECT {sortable} FROM {schema}.job
        WHERE {group} AND job.stale_at IS NOT NULL
            AND (job.priority, job.id) > (step.priority, %(after)s::uuid) AND (job.priority, job.id) < (step.priority, %(before)s::uuid) AND {filters}
        ORDER BY job.priority, job.id LIMIT %(limit)s
    ) AS job
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE {overdue} OFFSET 0) AS job WHERE {filters}
    {not_ended}
),
{first_of_found};

-- name: read_jobs_by_status_down
-- The same in order of creation, by status; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN generate_series(0, 20) AS step (priority) CROSS JOIN LATERAL (
        SELECT {sortable} FROM {schema}.job
        WHERE {group} AND job.stale_at IS NOT NULL
            AND (job.priority, job.id) > (step.priority, %(after)s::uuid) AND (job.priority, job.id) < (step.priority, %(before)s::uuid) AND {filters}
        ORDER BY job.priority DESC, job.id DESC LIMIT %(limit)s
    ) AS job
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM (SELECT * FROM {schema}.job WHERE {overdue} OFFSET 0) AS job WHERE {filters}
    {not_ended}
),
{first_of_found};

-- name: count_jobs
-- The number of jobs that match a filter among those examined, and the number examined.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM {schema}.job WHERE {along}
    LIMIT %(look)s
) AS counted;

-- name: count_jobs_by_tag
-- The same along the jobs with a tag.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM {schema}.job_tag AS walked {its_job}
    WHERE walked.tag = %(filter_tag)s AND {along}
    LIMIT %(look)s
) AS counted;

-- name: count_jobs_by_detail
-- The same along the jobs of a schedule, a parent or a reference.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM {schema}.job_detail AS walked {its_job} WHERE {along}
    LIMIT %(look)s
) AS counted;

-- name: count_jobs_by_failure
-- The same along the jobs with an attempt that failed in one way.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM (SELECT DISTINCT job_id AS id FROM {schema}.attempt WHERE fingerprint = %(filter_fingerprint)s) AS walked
    {its_job} WHERE {along}
    LIMIT %(look)s
) AS counted;

-- name: count_jobs_by_lane
-- The same along the lanes of a definition.
SELECT count(fits), count(*) FROM (
    SELECT fits FROM {schema}.definition CROSS JOIN LATERAL (
        SELECT {fits} FROM {schema}.job_detail AS walked {its_job}
        WHERE walked.lane = definition.lane AND {along} OFFSET 0
    ) AS walked
    WHERE definition.key = %(key)s::text
    LIMIT %(look)s
) AS counted;

-- name: count_jobs_by_status
-- The same by status.
SELECT count(fits), count(*) FROM (
    SELECT fits FROM {groups} CROSS JOIN LATERAL (
        SELECT {fits} FROM {schema}.job WHERE {group} AND job.status IN {ended} AND {along} OFFSET 0
    ) AS job
    WHERE {of_key}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE {overdue} OFFSET 0) AS job WHERE {along}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE %(scheduled)s::boolean AND job.status = {scheduled} OFFSET 0) AS job WHERE {along}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE %(queued)s::boolean AND job.status = {queued} AND NOT job.blocked OFFSET 0) AS job WHERE {along}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE %(queued)s::boolean AND job.blocked OFFSET 0) AS job WHERE {along}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE %(running)s::boolean AND job.worker IS NOT NULL OFFSET 0) AS job WHERE {along}
    UNION ALL
    SELECT {fits} FROM (SELECT * FROM {schema}.job WHERE %(review)s::boolean AND job.status = {review_needed} AND job.status IN {attention} OFFSET 0) AS job WHERE {along}
    LIMIT %(look)s
) AS counted;

-- name: measure_filters
-- The number of jobs that match each condition of a filter alone, up to a cap; missing conditions match none.
SELECT
    (SELECT count(*) FROM (SELECT FROM {schema}.job_tag WHERE tag = %(tag)s::text LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.job_detail WHERE schedule = %(schedule_id)s::text LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.job_detail WHERE parent = %(parent_id)s::uuid LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.job_detail WHERE reference_type = %(reference_type)s::text AND reference_id = %(reference_id)s::text LIMIT %(most)s) AS counted)
    + (SELECT count(*) FROM (SELECT FROM {schema}.job_detail WHERE %(reference_id)s::text IS NULL AND reference_type = %(reference_type)s::text LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.attempt WHERE fingerprint = %(fingerprint)s::text LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.definition JOIN {schema}.job_detail ON job_detail.lane = definition.lane WHERE definition.key = %(key)s::text LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM ({unended}) AS walked LIMIT %(most)s) AS counted),
    (SELECT count(*) FROM (SELECT FROM {schema}.job WHERE %(spanned)s::boolean AND {job_between} LIMIT %(wide)s) AS counted);
