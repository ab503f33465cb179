"""A job whose version no worker has loaded does not keep its concurrency key from jobs that workers can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock import JobHandle, Penstock
from tests.worker.fleet import Stage

SOURCE = """
    import os
    from penstock import Penstock

    app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

    @app.job("versioned", version={version}, concurrency_key="key", backoff=1, max_attempts=5)
    def versioned(key: str, fails: bool = False) -> int:
        if fails:
            raise ValueError("not this version")
        return {version}
"""


@contextmanager
def web_process(stage: Stage, version: int) -> Iterator[Penstock]:
    """A process that has a version of the definition loaded, and creates jobs of it."""
    app = Penstock(stage.url, schema=stage.schema)

    @app.job("versioned", version=version, concurrency_key="key", backoff=1, max_attempts=5)
    def versioned(key: str, fails: bool = False) -> int:
        return version

    app.definitions.register()
    try:
        yield app
    finally:
        app.close()


def create(app: Penstock, key: str, *, fails: bool = False) -> JobHandle[int]:
    return app.enqueue("versioned", {"key": key, "fails": fails})


def test_jobs_of_the_old_version_run_while_a_job_of_the_new_one_waits_for_its_worker(stage: Stage) -> None:
    stage.project(SOURCE.format(version=1), name="old")
    with web_process(stage, 1) as old, web_process(stage, 2) as new:
        waiting = create(new, "anna")
        ran = [create(old, "anna") for _ in range(3)]
        for each in ran:
            assert each.wait(30).result == 1
        assert [reason.code for reason in new.jobs.why(waiting.id)] == ["no_worker"]

        stage.project(SOURCE.format(version=2), name="new")

        assert waiting.wait(30).result == 2


def test_a_job_of_the_old_version_between_two_attempts_gives_its_key_to_the_new_one(stage: Stage) -> None:
    before = stage.project(SOURCE.format(version=1), name="old")
    with web_process(stage, 1) as old, web_process(stage, 2) as new:
        failing = create(old, "anna", fails=True)
        stage.eventually(lambda: stage.attempts(failing), "an attempt has failed")
        before.stop()
        stage.project(SOURCE.format(version=2), name="new")
        stage.until(failing, "queued")

        jobs = [create(new, "anna") for _ in range(3)]

        assert [each.wait(30).result for each in jobs] == [2, 2, 2]
        assert failing.refresh().status == "queued"
