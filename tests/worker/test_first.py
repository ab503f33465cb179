from tests.worker.fleet import Stage


def test_a_job_is_run_and_its_result_kept(stage: Stage) -> None:
    stage.worker()
    job = stage.enqueue("script", [["print", "hello"], ["return", {"a": [1, 2]}]])

    ended = stage.end(job)

    assert (ended.status, ended.result) == ("succeeded", {"a": [1, 2]})
    assert [line.message for line in stage.logs(job)] == ["hello"]
    assert stage.kinds(job) == ["job.enqueued", "job.started", "job.succeeded"]
