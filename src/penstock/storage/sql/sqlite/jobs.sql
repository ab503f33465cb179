-- Statements of the jobs port: claiming, settling, and what attempts write meanwhile.
-- :now is the wall clock, :steady and :boot the clock of leases; {input} is the table of the rows handed in.
-- The lines before "-- then" are run once for each row handed in, before "-- at once" in one step; the query before
-- "-- with" gives values to what comes after it. The plus in `leased` keeps the planner from looking a worker up by its
-- lease, whatever statistics say, and those after `in_row` from looking jobs up by anything but their ids.
-- Where all jobs of a batch are `alike`, which is most often so, nothing is grouped: SQLite would sort them for it.

-- let ageing: coalesce((SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'ageing'), 600000000)
-- let after: CASE job.status WHEN {cancelling} THEN {cancelled} ELSE input.status END
-- let ends: (job.status = {cancelling} OR input.status IN {ended})
-- let put_off: job.status = {running} AND input.status = {scheduled}
-- let put_back: job.status = {running} AND input.status = {queued}
-- let joined: group_concat(id, '","')
-- let of_one: CASE count(*) WHEN 1 THEN {joined} END
-- let of_many: CASE WHEN count(*) > 1 THEN '["' || {joined} || '"]' END
-- let held: job.fence = {input}.fence AND +job.worker = {input}.worker AND job.status IN {live}
-- let held_by: fence = :fence AND +worker = :worker AND +status IN {live}
-- let usual: (SELECT lane FROM temp.ended LIMIT 1)
-- let kept: CASE lane WHEN {usual} THEN (SELECT stale_after FROM definition WHERE lane = {usual}) ELSE (SELECT stale_after FROM definition WHERE lane = job.lane) END
-- let newest_try: NOT EXISTS (SELECT 1 FROM phase AS later WHERE later.job_id = phase.job_id AND later.name = phase.name AND later.fence > phase.fence)
-- let in_row: id BETWEEN :lowest AND :highest
-- let in_span: id BETWEEN lowest AND highest
-- let leased: ended IS NULL AND boot = :boot AND (+lease_until > :steady OR extended_until(id) > :steady)
-- let bucket_of_wait: CASE WHEN waited <= 50000 THEN CASE WHEN waited <= 1000 THEN 'A' WHEN waited <= 2500 THEN 'B' WHEN waited <= 5000 THEN 'C' WHEN waited <= 10000 THEN 'D' WHEN waited <= 25000 THEN 'E' ELSE 'F' END WHEN waited <= 1000000 THEN CASE WHEN waited <= 100000 THEN 'G' WHEN waited <= 250000 THEN 'H' WHEN waited <= 500000 THEN 'I' ELSE 'J' END ELSE CASE WHEN waited <= 2500000 THEN 'K' WHEN waited <= 5000000 THEN 'L' WHEN waited <= 10000000 THEN 'M' WHEN waited <= 30000000 THEN 'N' WHEN waited <= 60000000 THEN 'O' WHEN waited <= 120000000 THEN 'P' WHEN waited <= 300000000 THEN 'Q' WHEN waited <= 600000000 THEN 'R' WHEN waited <= 1800000000 THEN 'S' WHEN waited <= 3600000000 THEN 'T' WHEN waited <= 14400000000 THEN 'U' WHEN waited <= 86400000000 THEN 'V' ELSE 'W' END END
-- let bucket_of_run: CASE WHEN ran <= 50000 THEN CASE WHEN ran <= 1000 THEN 'A' WHEN ran <= 2500 THEN 'B' WHEN ran <= 5000 THEN 'C' WHEN ran <= 10000 THEN 'D' WHEN ran <= 25000 THEN 'E' ELSE 'F' END WHEN ran <= 1000000 THEN CASE WHEN ran <= 100000 THEN 'G' WHEN ran <= 250000 THEN 'H' WHEN ran <= 500000 THEN 'I' ELSE 'J' END ELSE CASE WHEN ran <= 2500000 THEN 'K' WHEN ran <= 5000000 THEN 'L' WHEN ran <= 10000000 THEN 'M' WHEN ran <= 30000000 THEN 'N' WHEN ran <= 60000000 THEN 'O' WHEN ran <= 120000000 THEN 'P' WHEN ran <= 300000000 THEN 'Q' WHEN ran <= 600000000 THEN 'R' WHEN ran <= 1800000000 THEN 'S' WHEN ran <= 3600000000 THEN 'T' WHEN ran <= 14400000000 THEN 'U' WHEN ran <= 86400000000 THEN 'V' ELSE 'W' END END

-- let claiming:
DELETE FROM temp.claimed;
INSERT INTO temp.claimed (id, lane, fence, attempt, max_attempts, lost, rank, limit_key, waited)
SELECT job.id, job.lane, fence + 1, attempt + 1, max_attempts, lost, job.rank, limit_key, max(0, :now - queued_at)

-- let span_of_claimed:
SELECT lowest, highest, (
    SELECT count(*) <= 2 * n AND sum(status = {queued} AND NOT blocked) = n
    FROM (SELECT status, blocked FROM job WHERE {in_span} LIMIT (SELECT 2 * count(*) + 1 FROM temp.claimed))
) AS in_a_row, newest = 1 AND n <= 1000 AS alike
FROM (SELECT min(id) AS lowest, max(id) AS highest, count(*) AS n, max(fence) AS newest FROM temp.claimed)

-- let run:
UPDATE job SET status = {running}, fence = fence + 1, attempt = attempt + 1, worker = :worker, rate_paid = 0,
    started_at = CASE WHEN :start AND lost = 0 THEN :now END, updated_at = :now

-- let to_the_worker:
{run} WHERE :in_a_row AND {in_row} AND +status = {queued} AND NOT +blocked;
{run} WHERE NOT :in_a_row AND id IN (SELECT id FROM temp.claimed);
INSERT INTO event (at, kind, fence, job_id, jobs)
SELECT :now, 'job.started', 1, {of_one}, {of_many} FROM temp.claimed WHERE :start AND :alike HAVING count(*) > 0;
INSERT INTO event (at, kind, fence, job_id, jobs)
SELECT :now, 'job.started', fence, {of_one}, {of_many} FROM temp.claimed
WHERE :start AND NOT :alike AND lost = 0 GROUP BY fence, position / 1000

-- let count_claimed:
INSERT INTO tally_delta (lane, minute, status, n, took, lengths)
SELECT lane, :now / 60000000, step.column1, step.column2 * n, step.column3 * took, iif(step.column3, lengths, NULL)

-- let sums_of_claimed: count(*) AS n, sum(waited) AS took, group_concat({bucket_of_wait}, '') AS lengths FROM temp.claimed
-- let steps_of_claimed: (VALUES ({queued}, -1, 0), ({running}, 1, 1)) AS step

-- let of_the_worker:
SELECT claimed.id AS id, claimed.lane, fence, attempt, max_attempts, lost, params, reference_type, reference_id,
    traceparent, schedule, scheduled_for, rank, tags, limit_key
FROM temp.claimed CROSS JOIN job_detail USING (id)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE NOT EXISTS (SELECT 1 FROM worker WHERE id = :worker AND {leased})

-- let end:
UPDATE job SET status = CASE status WHEN {cancelling} THEN {cancelled} ELSE {succeeded} END, worker = NULL, lost = 0, updated_at = :now, finished_at = :now,
    done_by = CASE WHEN :nothing AND status = {running} THEN :worker END, stale_at = :now + {kept}, retire_at = :now + {kept}

-- let count_ended:
INSERT INTO tally_delta (lane, minute, status, n, took, lengths)
SELECT lane, :now / 60000000, iif(step.column2, status, CASE status WHEN {cancelled} THEN {cancelling} ELSE {running} END), step.column1 * n,
    step.column2 * took, iif(step.column2, lengths, NULL)

-- let sums_of_ended: count(*) AS n, sum(ran) AS took, group_concat({bucket_of_run}, '') AS lengths FROM temp.ended
-- let steps_of_ended: (VALUES (-1, 0), (1, 1)) AS step

-- name: promote
-- Move due jobs to the queue.
DELETE FROM temp.taken;
INSERT INTO temp.taken (id, lane)
SELECT id, lane FROM job WHERE status = {scheduled} AND due_at <= :now ORDER BY due_at, id LIMIT :limit;
UPDATE job SET status = {queued}, queued_at = :now, updated_at = :now, blocked = limit_key IS NOT NULL AND NOT rate_paid,
    rate_paid = 0, rank = due_at - priority * {ageing}
WHERE id IN (SELECT id FROM temp.taken);
INSERT INTO tally_delta (lane, minute, status, n)
SELECT lane, :now / 60000000, step.column1, step.column2 * count(*)
FROM temp.taken CROSS JOIN (VALUES ({scheduled}, -1), ({queued}, 1)) AS step GROUP BY lane, step.column1;
SELECT job.id, CASE WHEN blocked THEN limit_key END FROM temp.taken JOIN job USING (id);

-- name: next_due
-- Time until the next scheduled job is due.
SELECT due_at - :now FROM job WHERE status = {scheduled} ORDER BY due_at, id LIMIT 1;

-- name: claim
-- Give the best-ranked jobs of these lanes to a worker with a live lease. Each lane gives at most its quota; where jobs
-- are paid for by key, only paid ones. `walk` merges the lanes by rank: it begins with the first ready job of each
-- lane, and replaces each taken job by the next of its lane. Jobs of the same rank are looked up apart: SQLite would
-- read all of them to find those after one. A job that was lost before is not recorded as started: it must wait to run
-- alone. A row of nulls: the lease has ended.
WITH RECURSIVE ready (lane) AS (
    SELECT (SELECT min(lane) FROM job WHERE status = {queued} AND NOT blocked)
    WHERE EXISTS (SELECT 1 FROM worker WHERE id = :worker AND {leased}) AND NOT EXISTS (
        SELECT 1 FROM control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > :now)
    )
    UNION ALL
    SELECT (SELECT min(lane) FROM job WHERE status = {queued} AND NOT blocked AND lane > ready.lane) FROM ready WHERE lane IS NOT NULL
)
SELECT lane FROM ready;
-- for
{claiming}
FROM (
    WITH RECURSIVE walk (rank, id, lane, quota, paid) AS (
        SELECT first.rank, first.id, input.lane, input.quota, input.paid
        FROM {input} AS input CROSS JOIN definition USING (lane) CROSS JOIN control USING (key)
        CROSS JOIN job AS first ON first.id = (
            SELECT id FROM job WHERE lane = input.lane AND status = {queued} AND NOT blocked
                AND (rank, id) > (input.after_rank, input.after_id) AND (NOT input.paid OR rate_paid OR limit_key IS NULL)
            ORDER BY rank, id LIMIT 1
        )
        WHERE (input.granted OR (concurrency = 0 AND rate_count = 0)) AND (pause_at IS NULL OR pause_until <= :now)
        UNION ALL
        SELECT later.rank, later.id, walk.lane, quota - 1, paid
        FROM walk CROSS JOIN job AS later ON later.id = coalesce((
            SELECT id FROM job WHERE lane = walk.lane AND status = {queued} AND NOT blocked
                AND rank = walk.rank AND id > walk.id AND (NOT walk.paid OR rate_paid OR limit_key IS NULL)
            ORDER BY id LIMIT 1
        ), (
            SELECT id FROM job WHERE lane = walk.lane AND status = {queued} AND NOT blocked
                AND rank > walk.rank AND (NOT walk.paid OR rate_paid OR limit_key IS NULL)
            ORDER BY rank, id LIMIT 1
        ))
        WHERE quota > 1
        ORDER BY 1, 2 LIMIT :limit
    )
    SELECT id FROM walk
) AS best CROSS JOIN job ON job.id = best.id;
{span_of_claimed};
-- with lowest, highest, in_a_row, alike
{to_the_worker};
{count_claimed} FROM (SELECT lane, {sums_of_claimed} GROUP BY lane) CROSS JOIN {steps_of_claimed};
-- at once
{of_the_worker};

-- name: claim_lane
-- Give the best-ranked jobs of one lane to a worker, as with `claim`, for a definition without limits.
{claiming}
FROM job WHERE lane = :lane AND status = {queued} AND NOT blocked AND (rank, id) > (:after_rank, :after_id)
    AND EXISTS (SELECT 1 FROM worker WHERE id = :worker AND {leased})
    AND EXISTS (
        SELECT 1 FROM definition JOIN control USING (key) WHERE definition.lane = :lane
            AND concurrency = 0 AND rate_count = 0 AND (pause_at IS NULL OR pause_until <= :now)
    )
    AND NOT EXISTS (
        SELECT 1 FROM control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > :now)
    )
ORDER BY rank, id LIMIT :limit;
{span_of_claimed};
-- with lowest, highest, in_a_row, alike
{to_the_worker};
{count_claimed} FROM (SELECT :lane AS lane, {sums_of_claimed}) CROSS JOIN {steps_of_claimed} WHERE n > 0;
-- at once
{of_the_worker};

-- name: ready_job
-- Lane and rank of a job that is queued and not blocked.
SELECT lane, rank FROM job WHERE id = :id AND status = {queued} AND NOT blocked;

-- name: claim_job
-- Give this job to a worker, as with `claim`; `granted`: its definition has a limit with room.
{claiming}
FROM job WHERE job.id = :id AND job.status = {queued} AND NOT blocked AND (NOT :paid OR rate_paid OR limit_key IS NULL)
    AND EXISTS (SELECT 1 FROM worker WHERE id = :worker AND {leased})
    AND EXISTS (
        SELECT 1 FROM definition JOIN control USING (key) WHERE definition.lane = job.lane
            AND (:granted OR (concurrency = 0 AND rate_count = 0)) AND (pause_at IS NULL OR pause_until <= :now)
    )
    AND NOT EXISTS (
        SELECT 1 FROM control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > :now)
    )
LIMIT :limit;
{span_of_claimed};
-- with lowest, highest, in_a_row, alike
{to_the_worker};
{count_claimed} FROM (SELECT lane, {sums_of_claimed} GROUP BY lane) CROSS JOIN {steps_of_claimed};
-- at once
{of_the_worker};

-- name: claimable
-- Whether a job of these lanes can be claimed that was created by then, or whose parent was.
SELECT 1 FROM job JOIN definition ON definition.lane = job.lane JOIN control ON control.key = definition.key
WHERE job.lane IN (SELECT value FROM json_each(:lanes)) AND job.status = {queued} AND NOT job.blocked
    AND (pause_at IS NULL OR pause_until <= :now)
    AND NOT EXISTS (
        SELECT 1 FROM control WHERE key = '*' AND pause_at IS NOT NULL AND (pause_until IS NULL OR pause_until > :now)
    )
    AND (job.created_at <= :created_by OR EXISTS (
        SELECT 1 FROM job_detail CROSS JOIN job AS parent ON parent.id = job_detail.parent
        WHERE job_detail.id = job.id AND parent.created_at <= :created_by
    ))
LIMIT 1;

-- name: start
-- Record that claimed attempts begin.
DELETE FROM {input} WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = {input}.id AND {held});
INSERT INTO event (at, kind, fence, job_id, jobs)
SELECT :now, 'job.started', job.fence, {of_one}, {of_many} FROM {input} AS input CROSS JOIN job USING (id)
WHERE started_at IS NULL GROUP BY job.fence, input.rowid / 1000;
UPDATE job SET started_at = :now, updated_at = :now WHERE id IN (SELECT id FROM {input}) AND started_at IS NULL;
SELECT id, fence, worker FROM {input};

-- name: settle
-- End attempts where the worker still holds the job under that fence; a cancelling job becomes cancelled.
DELETE FROM {input} WHERE NOT EXISTS (
    SELECT 1 FROM job WHERE job.id = {input}.id AND job.fence = {input}.fence AND +job.worker = :worker
        AND job.status IN {live}
);
UPDATE job SET
    status = {after}, worker = NULL, updated_at = :now,
    attempt = job.attempt - input.attempt_back, lost = input.lost,
    blocked = {put_back} AND limit_key IS NOT NULL,
    due_at = CASE WHEN {put_off} THEN :now + input.delay ELSE due_at END,
    rank = CASE WHEN {put_off} THEN :now + input.delay - priority * {ageing} ELSE rank END,
    queued_at = CASE WHEN {put_back} THEN :now ELSE queued_at END,
    finished_at = CASE WHEN {ends} THEN :now END,
    stale_at = CASE WHEN {ends} THEN :now + (SELECT stale_after FROM definition WHERE lane = job.lane) END,
    retire_at = CASE WHEN {ends} THEN :now + (SELECT stale_after FROM definition WHERE lane = job.lane) END
FROM {input} AS input WHERE job.id = input.id;
INSERT INTO attempt (
    job_id, fence, number, status, cause, worker, started_at, ended_at, result, error_type, error, traceback,
    fingerprint, exit_code, signal, peak_memory, cpu_seconds
)
SELECT job.id, job.fence, job.attempt + attempt_back, job.status, cause, :worker, started_at, :now, result,
    error_type, error, traceback, fingerprint, exit_code, signal, peak_memory, cpu_seconds
FROM {input} AS input CROSS JOIN job USING (id);
INSERT INTO review (job_id, fence, note, data, result, asked_at)
SELECT job.id, job.fence, note, data, result, :now FROM {input} AS input CROSS JOIN job USING (id)
WHERE input.status = {review_needed} AND job.status = {review_needed};
INSERT INTO event (at, kind, job_id, fence, data)
SELECT :now, CASE job.status WHEN {cancelled} THEN 'job.cancelled' ELSE kind END, job.id, job.fence, event_data
FROM {input} AS input CROSS JOIN job USING (id);
INSERT INTO tally_delta (lane, minute, status, n)
SELECT lane, :now / 60000000, CASE job.status WHEN {cancelled} THEN {cancelling} ELSE {running} END AS counted, -count(*)
FROM {input} AS input CROSS JOIN job USING (id) GROUP BY lane, counted;
INSERT INTO tally_delta (lane, minute, status, n, took, lengths)
SELECT lane, :now / 60000000, status, count(*), coalesce(sum(ran), 0),
    group_concat(CASE WHEN cause = 'lost' THEN '~' WHEN ran IS NOT NULL THEN {bucket_of_run} END, '')
FROM (
    SELECT lane, job.status, cause, CASE WHEN attempt_back = 0 AND cause <> 'lost' THEN max(0, :now - coalesce(started_at, :now)) END AS ran
    FROM {input} AS input CROSS JOIN job USING (id)
)
GROUP BY lane, status;
SELECT job.id, job.fence, job.status, limit_key, key, job.lane, hooked
FROM {input} AS input CROSS JOIN job USING (id) JOIN definition ON definition.lane = job.lane;

-- name: settle_done
-- End successful attempts with one fence that need no other write: the common case, in few columns. The first row has
-- the number of ended attempts; others follow where more is to do, and all of them when some were not ended. With
-- `alone`, jobs with a concurrency key are left out, and all jobs if there are hooks. A success without result changes
-- only the job's own row, unless it was being cancelled. Retention periods are looked up once for the lane of the first
-- job, usually the lane of all. Each job is looked up twice: to read and to change it. Where the range from the first
-- to the last id has no other jobs, it is changed in one pass, without a list of ids.
DELETE FROM temp.ended;
INSERT INTO temp.ended (position, id, lane, status, number, started_at, limit_key, ran)
SELECT input.rowid, job.id, job.lane, CASE job.status WHEN {cancelling} THEN {cancelled} ELSE {succeeded} END, attempt, started_at, limit_key,
    max(0, :now - coalesce(started_at, :now))
FROM {input} AS input CROSS JOIN job USING (id) WHERE {held_by}
    AND (NOT :alone OR (limit_key IS NULL AND NOT EXISTS (
        SELECT 1 FROM definition WHERE lane IN (SELECT value FROM json_each(:lanes)) AND hooked
    )));
SELECT lowest, highest, (
    SELECT count(*) <= 2 * n AND sum({held_by}) = n
    FROM (SELECT fence, worker, status FROM job WHERE {in_span} LIMIT (SELECT 2 * count(*) + 1 FROM temp.ended))
) AS in_a_row, returned = n AND n <= 1000 AND json_array_length(:lanes) = 1 AS alike
FROM (SELECT min(id) AS lowest, max(id) AS highest, count(*) AS n, sum(status = {succeeded}) AS returned FROM temp.ended);
-- with lowest, highest, in_a_row, alike
{end} WHERE :in_a_row AND {in_row} AND {held_by};
{end} WHERE NOT :in_a_row AND id IN (SELECT id FROM temp.ended);
INSERT INTO attempt (
    job_id, fence, number, status, cause, worker, started_at, ended_at, result, exit_code, peak_memory, cpu_seconds
)
SELECT ended.id, :fence, number, status, 'returned', :worker, started_at, :now,
    CASE WHEN :nothing THEN 'null' ELSE result END, exit_code, peak_memory, cpu_seconds
FROM temp.ended CROSS JOIN {input} AS input ON input.rowid = ended.position WHERE NOT :nothing OR status = {cancelled};
INSERT INTO event (at, kind, fence, job_id, jobs)
SELECT :now, 'job.succeeded', :fence, {of_one}, {of_many} FROM temp.ended WHERE :alike HAVING count(*) > 0;
INSERT INTO event (at, kind, fence, job_id, jobs)
SELECT :now, CASE status WHEN {cancelled} THEN 'job.cancelled' ELSE 'job.succeeded' END, :fence, {of_one}, {of_many}
FROM temp.ended WHERE NOT :alike GROUP BY status, position / 1000;
{count_ended} FROM (SELECT lane, {succeeded} AS status, {sums_of_ended} WHERE :alike HAVING n > 0) CROSS JOIN {steps_of_ended};
{count_ended} FROM (SELECT lane, status, {sums_of_ended} WHERE NOT :alike GROUP BY lane, status) CROSS JOIN {steps_of_ended};
-- at once
SELECT NULL, count(*), NULL, NULL, NULL, NULL, NULL FROM temp.ended
UNION ALL
SELECT ended.id, :fence, ended.status, limit_key, key, ended.lane, hooked
FROM temp.ended JOIN definition ON definition.lane = ended.lane
WHERE limit_key IS NOT NULL OR hooked OR (SELECT count(*) FROM temp.ended) < :count;

-- name: lanes_of
-- The lanes of these jobs.
SELECT DISTINCT lane FROM {input} AS input CROSS JOIN job USING (id);

-- name: find_attempts
-- The recorded ones of these attempts, with their causes.
SELECT attempt.job_id, attempt.fence, attempt.cause FROM {input} AS input
JOIN attempt ON attempt.job_id = input.id AND attempt.fence = input.fence AND attempt.worker = input.worker
UNION ALL
SELECT job.id, job.fence, 'returned' FROM {input} AS input
JOIN job ON job.id = input.id AND job.fence = input.fence AND job.done_by = input.worker;

-- name: save_progress
-- Save progress of attempts; return those that still hold their job.
DELETE FROM {input} WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.id = {input}.id AND {held});
INSERT INTO progress (job_id, fence, percent, message, phase, updated_at)
SELECT id, fence, percent, message, phase, :now FROM {input} WHERE true
ON CONFLICT (job_id) DO UPDATE SET fence = excluded.fence, percent = excluded.percent,
    message = coalesce(excluded.message, CASE WHEN fence = excluded.fence THEN message END),
    phase = coalesce(excluded.phase, CASE WHEN fence = excluded.fence THEN phase END),
    updated_at = excluded.updated_at;
INSERT INTO event (at, kind, job_id, fence, data)
SELECT :now, 'job.progress', id, fence, json_object('percent', percent, 'message', message, 'phase', phase) FROM {input};
SELECT id, fence, worker FROM {input};

-- name: hold_attempt
-- Check whether an attempt is live; the transaction is the only writer.
SELECT :now FROM job WHERE id = :id AND {held_by};

-- name: save_phase
-- Save a phase of an attempt; a completed phase is not changed.
INSERT INTO phase (job_id, name, fence, position, status, progress, message, result, error, started_at, ended_at)
SELECT :id, :name, :fence, :position, :status, :progress, :message, :result, :error,
    coalesce(:at, :now), CASE WHEN :status <> 'running' THEN coalesce(:at, :now) END
WHERE NOT EXISTS (
    SELECT 1 FROM phase WHERE job_id = :id AND name = :name AND status = 'completed' AND NOT forgotten
)
ON CONFLICT (job_id, name, fence) DO UPDATE SET
    position = excluded.position, status = excluded.status, progress = excluded.progress,
    message = coalesce(excluded.message, message), result = excluded.result, error = excluded.error,
    ended_at = excluded.ended_at
RETURNING name;

-- name: read_phases
-- The phases of a job in their order, each from its last attempt.
SELECT job_id, name, position, status, progress, message, result, error, fence, started_at, ended_at
FROM phase WHERE job_id = :id AND NOT forgotten AND {newest_try} ORDER BY position, name;

-- name: save_logs
-- Insert log lines of a locked attempt.
INSERT INTO log (job_id, fence, at, level, phase, message, details, duration)
SELECT :id, :fence, coalesce(at, :now), level, phase, message, details, duration FROM {input} ORDER BY rowid;

-- name: save_events
-- Insert events, in this order.
INSERT INTO event (at, kind, job_id, subject, fence, data)
SELECT :now, kind, job_id, subject, fence, data FROM {input} ORDER BY rowid;
