-- Statements of the admin port that list and count jobs: one for each index along which they can be found.
-- :now is the wall clock; {filters}, {along}, {among}, {order} and {answer} are put in.
-- A list finds the ids of its page first; `walked` is what is walked along. Ids are between after and before.

-- let told_now: CASE WHEN job.stale_at <= :now THEN {stale} ELSE job.status END
-- let its_error: coalesce(CASE review.decision WHEN 'rejected' THEN coalesce(review.decided_note, 'Rejected.') END, attempt.error)
-- let its_error_type: CASE review.decision WHEN 'rejected' THEN 'Rejected' ELSE attempt.error_type END
-- let job: job.id, definition.key, definition.version, {told_now}, job.status, detail.params, CASE WHEN job.status = {succeeded} THEN coalesce(review.result, attempt.result, CASE WHEN job.done_by IS NOT NULL THEN 'null' END) END, {its_error}, {its_error_type}, job.attempt, job.max_attempts, job.lost, job.fence, job.generation, job.priority, progress.percent, progress.message, progress.phase, detail.reference_type, detail.reference_id, detail.tags, detail.idempotency_key, job.limit_key, job.unique_key, job.blocked, detail.webhook_url, detail.schedule, detail.scheduled_for, detail.parent, detail.rerun_of, detail.actor, job.created_at, job.due_at, job.queued_at, job.started_at, job.finished_at, job.updated_at, job.stale_at, job.cancel_at, job.worker, (SELECT max(delivery.status = 'delivered') FROM delivery WHERE delivery.job_id = job.id), coalesce(attempt.ended_at, CASE WHEN job.done_by IS NOT NULL THEN job.finished_at END)
-- let whole: FROM page AS walked CROSS JOIN job ON job.id = walked.id JOIN job_detail AS detail ON detail.id = job.id JOIN definition ON definition.lane = job.lane LEFT JOIN attempt ON attempt.job_id = job.id AND attempt.fence = job.fence LEFT JOIN review ON review.job_id = job.id AND review.fence = job.fence LEFT JOIN progress ON progress.job_id = job.id
-- let its_job: CROSS JOIN job ON job.id = walked.id
-- let job_between: job.id > :after AND job.id < :before
-- let group: job.lane = definition.lane AND job.status = stood.value / 2 AND job.retired = stood.value % 2
-- let groups: definition CROSS JOIN json_each(:groups) AS stood
-- let of_key: (:key IS NULL OR definition.key = :key)
-- let overdue: :overdue AND job.retire_at <= :now AND NOT job.retired AND job.status * 2 NOT IN (SELECT value FROM json_each(:groups))
-- let unended: SELECT id FROM job WHERE :scheduled AND job.status = {scheduled} UNION ALL SELECT id FROM job WHERE :queued AND job.status = {queued} AND NOT job.blocked UNION ALL SELECT id FROM job WHERE :queued AND job.blocked UNION ALL SELECT id FROM job WHERE :running AND job.worker IS NOT NULL UNION ALL SELECT id FROM job WHERE :review AND job.status = {review_needed} AND job.status IN {attention}
-- let sortable: job.id, job.priority
-- let by_end: job.id, job.finished_at
-- let fits: CASE WHEN {filters} THEN 1 END AS fits
-- let not_ended: UNION ALL SELECT {sortable} FROM job INDEXED BY job_due WHERE :scheduled AND job.status = {scheduled} AND {filters} UNION ALL SELECT {sortable} FROM job INDEXED BY job_ready WHERE :queued AND job.status = {queued} AND NOT job.blocked AND {filters} UNION ALL SELECT {sortable} FROM job INDEXED BY job_blocked WHERE :queued AND job.blocked AND {filters} UNION ALL SELECT {sortable} FROM job INDEXED BY job_running WHERE :running AND job.worker IS NOT NULL AND {filters} UNION ALL SELECT {sortable} FROM job INDEXED BY job_attention WHERE :review AND job.status = {review_needed} AND job.status IN {attention} AND {filters}
-- let first_of_found: page AS MATERIALIZED (SELECT job.id FROM (SELECT * FROM found) AS job ORDER BY {order} LIMIT :limit) {answer}

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
(job.finished_at, job.id) > (:past_key, :past_id)

-- name: past_finished_down
-- Jobs after the last one of a page.
(job.finished_at, job.id) < (:past_key, :past_id)

-- name: past_priority_up
-- Jobs after the last one of a page.
(job.priority, job.id) > (:past_key, :past_id)

-- name: past_priority_down
-- Jobs after the last one of a page.
(job.priority, job.id) < (:past_key, :past_id)

-- name: past_walked_priority_up
-- Jobs after the last one of a page, in the order of the walked index.
(walked.priority, walked.id) > (:past_key, :past_id)

-- name: past_walked_priority_down
-- Jobs after the last one of a page, in the order of the walked index.
(walked.priority, walked.id) < (:past_key, :past_id)

-- name: past_span
-- Jobs with ids between these two.
{job_between}

-- name: past_span_aside
-- The same, without the index on ids.
+job.id > :after AND +job.id < :before

-- name: past_span_walked
-- The same on the walked index.
walked.id > :after AND walked.id < :before

-- name: past_span_walked_aside
-- The same, without the index on ids.
+walked.id > :after AND +walked.id < :before

-- name: within_finished
-- Jobs that ended within a span of time.
job.finished_at BETWEEN :ended_from AND :ended_to

-- name: filter_finished
-- Jobs that have ended.
job.finished_at IS NOT NULL

-- name: check_tag
-- Jobs with this tag, looked up job by job.
EXISTS (SELECT 1 FROM job_tag WHERE job_tag.tag = :filter_tag AND job_tag.id = job.id)

-- name: check_walked_tag
-- The same on the walked index, before the job itself is read.
EXISTS (SELECT 1 FROM job_tag WHERE job_tag.tag = :filter_tag AND job_tag.id = walked.id)

-- name: check_fingerprint
-- Jobs with an attempt that failed this way, looked up job by job.
EXISTS (SELECT 1 FROM attempt WHERE attempt.fingerprint = :filter_fingerprint AND attempt.job_id = job.id)

-- name: check_schedule_id
-- Jobs that this schedule made, looked up job by job.
EXISTS (SELECT 1 FROM job_detail INDEXED BY job_detail_schedule WHERE job_detail.schedule = :filter_schedule_id AND job_detail.id = job.id)

-- name: check_parent_id
-- Jobs that this job created, looked up job by job.
EXISTS (SELECT 1 FROM job_detail WHERE job_detail.id = job.id AND +job_detail.parent = :filter_parent_id)

-- name: check_reference_type
-- Jobs that refer to a thing of this type, looked up job by job.
EXISTS (SELECT 1 FROM job_detail WHERE job_detail.id = job.id AND +job_detail.reference_type = :filter_reference_type)

-- name: check_reference_id
-- Jobs that refer to the thing with this id, looked up job by job.
EXISTS (SELECT 1 FROM job_detail WHERE job_detail.id = job.id AND +job_detail.reference_id = :filter_reference_id)

-- name: check_status
-- Jobs with one of these statuses now.
CASE WHEN job.stale_at <= :now THEN {stale} ELSE job.status END IN (SELECT value FROM json_each(:filter_status))

-- name: check_created_from
-- Jobs created at this instant or later.
job.created_at >= :filter_created_from

-- name: check_created_to
-- Jobs created before this instant.
job.created_at < :filter_created_to

-- name: check_definition_key
-- Jobs of any version of a definition, by their lane.
job.lane IN (SELECT lane FROM definition WHERE key = :filter_definition_key)

-- name: along_schedule_id
-- Along the jobs that this schedule made.
walked.schedule = :filter_schedule_id

-- name: along_parent_id
-- Along the jobs that this job created.
walked.parent = :filter_parent_id

-- name: along_reference_type
-- Along the jobs that refer to a thing of this type.
walked.reference_type = :filter_reference_type

-- name: along_reference_id
-- Along the jobs that refer to the thing with this id.
walked.reference_id = :filter_reference_id

-- name: among_tag
-- Jobs with this tag, by their ids.
SELECT id FROM job_tag WHERE tag = :filter_tag

-- name: among_schedule_id
-- Jobs that this schedule made, by their ids.
SELECT id FROM job_detail WHERE schedule = :filter_schedule_id

-- name: among_parent_id
-- Jobs that this job created, by their ids.
SELECT id FROM job_detail WHERE parent = :filter_parent_id

-- name: among_reference_type
-- Jobs that refer to a thing of this type, by their ids.
SELECT id FROM job_detail WHERE reference_type = :filter_reference_type

-- name: among_reference_id
-- Jobs that refer to the thing of this type and id, by their ids.
SELECT id FROM job_detail WHERE reference_type = :filter_reference_type AND reference_id = :filter_reference_id

-- name: among_fingerprint
-- Jobs with an attempt that failed this way, by their ids.
SELECT DISTINCT job_id AS id FROM attempt WHERE fingerprint = :filter_fingerprint

-- name: answer_jobs
-- The jobs of a page with all their fields.
SELECT {job}
{whole}
ORDER BY {order}

-- name: answer_ids
-- The ids of a page.
SELECT walked.id FROM page AS walked CROSS JOIN job ON job.id = walked.id ORDER BY {order}

-- name: answer_searched
-- The ids of examined jobs; 1 where everything but the search matches, 2 where error and parameters match as well; the
-- size of these in bytes.
SELECT job.id, CASE WHEN {checked} THEN CASE WHEN
    (:error IS NULL OR instr(lower(concat_ws(': ', {its_error_type}, {its_error})), :error) > 0)
    AND (:params IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(:params) AS wanted WHERE NOT EXISTS (
            SELECT 1 FROM json_each(detail.params) AS had
            WHERE had.key = wanted.key AND CASE had.type WHEN 'text' THEN had.value WHEN 'object' THEN NULL WHEN 'array' THEN NULL ELSE detail.params -> had.fullkey END = wanted.value
        )
    )) THEN 2 ELSE 1 END ELSE 0 END,
    CASE WHEN :params IS NULL THEN 0 ELSE octet_length(detail.params) END + coalesce(octet_length(attempt.error), 0)
FROM page AS walked CROSS JOIN job ON job.id = walked.id JOIN job_detail AS detail ON detail.id = job.id
LEFT JOIN attempt ON attempt.job_id = job.id AND attempt.fence = job.fence LEFT JOIN review ON review.job_id = job.id AND review.fence = job.fence
ORDER BY {order}

-- name: read_jobs
-- Jobs that match a filter, in some order. Their ids are found first.
WITH page AS MATERIALIZED (
    SELECT job.id FROM job WHERE {filters} ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_tag
-- The same along the jobs with a tag.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM job_tag AS walked {its_job}
    WHERE walked.tag = :filter_tag AND {filters}
    ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_tag_priority
-- The same along the priorities of the jobs with a tag.
WITH page AS MATERIALIZED (
    SELECT walked.id, walked.priority FROM job_tag AS walked {its_job}
    WHERE walked.tag = :filter_tag AND {filters}
    ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_schedule_priority
-- The same along the priorities of the jobs of a schedule.
WITH page AS MATERIALIZED (
    SELECT walked.id, walked.priority FROM (SELECT id, schedule, schedule_priority AS priority FROM job_detail) AS walked
    {its_job} WHERE walked.schedule = :filter_schedule_id AND {filters}
    ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_detail
-- The same along the jobs of a schedule, a parent or a reference.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM job_detail AS walked {its_job}
    WHERE {filters} ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_failure
-- The same along the jobs with an attempt that failed in one way.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM (SELECT DISTINCT job_id AS id FROM attempt WHERE fingerprint = :filter_fingerprint) AS walked
    {its_job}
    WHERE {filters} ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_lane_up
-- The same along the lanes of a definition, the oldest first.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM definition CROSS JOIN job AS walked ON walked.id IN (
        SELECT walked.id FROM job_detail AS walked {its_job}
        WHERE walked.lane = definition.lane AND walked.id > :after AND walked.id < :before AND {filters} ORDER BY {order} LIMIT :limit
    )
    WHERE definition.key = :key ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_lane_down
-- The same along the lanes of a definition, the newest first.
WITH page AS MATERIALIZED (
    SELECT walked.id FROM definition CROSS JOIN job AS walked ON walked.id IN (
        SELECT walked.id FROM job_detail AS walked {its_job}
        WHERE walked.lane = definition.lane AND walked.id > :after AND walked.id < :before AND {filters} ORDER BY {order} LIMIT :limit
    )
    WHERE definition.key = :key ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_among
-- The same for jobs whose ids are gathered.
WITH page AS MATERIALIZED (
    SELECT job.id FROM {among} AS walked {its_job} WHERE {filters} ORDER BY {order} LIMIT :limit
)
{answer};

-- name: read_jobs_by_end
-- The same along the ends of jobs, for each lane and outcome.
WITH found AS MATERIALIZED (
    SELECT {by_end} FROM {groups} CROSS JOIN job ON job.id IN (
        SELECT job.id FROM job
        WHERE {group} AND job.finished_at IS NOT NULL AND {filters}
        ORDER BY {order} LIMIT :limit
    )
    WHERE {of_key}
    UNION ALL
    SELECT {by_end} FROM job INDEXED BY job_retire WHERE {overdue} AND {filters}
),
{first_of_found};

-- name: read_jobs_by_priority
-- The same along the priorities of ended jobs; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN job ON job.id IN (
        SELECT job.id FROM job
        WHERE {group} AND job.status IN {ended} AND {filters}
        ORDER BY {order} LIMIT :limit
    )
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM job INDEXED BY job_retire WHERE {overdue} AND {filters}
    {not_ended}
),
{first_of_found};

-- name: read_jobs_by_status_up
-- The same in order of creation, by status; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN (WITH RECURSIVE step (priority) AS (SELECT 0 UNION ALL SELECT priority + 1 FROM step WHERE priority < 20) SELECT priority FROM step) AS step CROSS JOIN job ON job.id IN (
        SELECT job.id FROM job
        WHERE {group} AND job.status IN {ended} AND job.priority = step.priority AND {filters}
        ORDER BY {order} LIMIT :limit
    )
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM job INDEXED BY job_retire WHERE {overdue} AND {filters}
    {not_ended}
),
{first_of_found};

-- name: read_jobs_by_status_down
-- The same in order of creation, by status; jobs that have not ended are gathered.
WITH found AS MATERIALIZED (
    SELECT {sortable} FROM {groups} CROSS JOIN (WITH RECURSIVE step (priority) AS (SELECT 0 UNION ALL SELECT priority + 1 FROM step WHERE priority < 20) SELECT priority FROM step) AS step CROSS JOIN job ON job.id IN (
        SELECT job.id FROM job
        WHERE {group} AND job.status IN {ended} AND job.priority = step.priority AND {filters}
        ORDER BY {order} LIMIT :limit
    )
    WHERE {of_key}
    UNION ALL
    SELECT {sortable} FROM job INDEXED BY job_retire WHERE {overdue} AND {filters}
    {not_ended}
),
{first_of_found};

-- name: count_jobs
-- The number of jobs that match a filter among those examined, and the number examined.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM job WHERE {along}
    LIMIT :look
);

-- name: count_jobs_by_tag
-- The same along the jobs with a tag.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM job_tag AS walked {its_job}
    WHERE walked.tag = :filter_tag AND {along}
    LIMIT :look
);

-- name: count_jobs_by_detail
-- The same along the jobs of a schedule, a parent or a reference.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM job_detail AS walked {its_job} WHERE {along}
    LIMIT :look
);

-- name: count_jobs_by_failure
-- The same along the jobs with an attempt that failed in one way.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM (SELECT DISTINCT job_id AS id FROM attempt WHERE fingerprint = :filter_fingerprint) AS walked
    {its_job} WHERE {along}
    LIMIT :look
);

-- name: count_jobs_by_lane
-- The same along the lanes of a definition.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM definition CROSS JOIN job_detail AS walked ON walked.lane = definition.lane {its_job}
    WHERE definition.key = :key AND {along}
    LIMIT :look
);

-- name: count_jobs_by_status
-- The same by status.
SELECT count(fits), count(*) FROM (
    SELECT {fits} FROM {groups} CROSS JOIN job INDEXED BY job_ended_at ON {group} AND job.finished_at IS NOT NULL
    WHERE {of_key} AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_retire WHERE {overdue} AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_due WHERE :scheduled AND job.status = {scheduled} AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_ready WHERE :queued AND job.status = {queued} AND NOT job.blocked AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_blocked WHERE :queued AND job.blocked AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_running WHERE :running AND job.worker IS NOT NULL AND {along}
    UNION ALL
    SELECT {fits} FROM job INDEXED BY job_attention WHERE :review AND job.status = {review_needed} AND job.status IN {attention} AND {along}
    LIMIT :look
);

-- name: measure_filters
-- The number of jobs that match each condition of a filter alone, up to a cap; missing conditions match none.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM job_tag WHERE tag = :tag LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM job_detail WHERE schedule = :schedule_id LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM job_detail WHERE parent = :parent_id LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM job_detail WHERE reference_type = :reference_type AND reference_id = :reference_id LIMIT :most))
    + (SELECT count(*) FROM (SELECT 1 FROM job_detail WHERE :reference_id IS NULL AND reference_type = :reference_type LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM attempt WHERE fingerprint = :fingerprint LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM definition CROSS JOIN job_detail ON job_detail.lane = definition.lane WHERE definition.key = :key LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM ({unended}) AS walked LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM job WHERE :spanned AND {job_between} LIMIT :wide));
