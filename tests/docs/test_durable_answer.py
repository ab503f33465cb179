"""The first promise of the README: what `enqueue` has answered survives `kill -9`."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Penstock
from tests.conftest import Counts
from tests.services import PostgresServer

pytestmark = pytest.mark.crash

PROGRAM = """
import sys
from penstock import Penstock

app = Penstock(sys.argv[1], migrate=True)

@app.job("work")
def work(number: int) -> None: ...

number = 0
while True:
    print(work.enqueue(number).id, flush=True)
    number += 1
"""


def test_every_answered_job_is_there_after_the_process_was_killed(tmp_path: Path, counts: Counts) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"

    answered = _ids_of_a_process_that_is_killed(url, counts(ci=50, soak=5000))

    assert _missing(url, answered) == []


def test_every_answered_job_is_there_after_process_and_server_were_killed(
    postgres: PostgresServer, counts: Counts
) -> None:
    url = postgres.create_database()

    answered = _ids_of_a_process_that_is_killed(url, counts(ci=50, soak=5000))
    postgres.restart("immediate")

    assert _missing(url, answered) == []
    postgres.drop_database(url)


def _ids_of_a_process_that_is_killed(url: str, count: int) -> list[str]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    answered = [process.stdout.readline().strip() for _ in range(count)]
    process.kill()
    answered += process.stdout.read().split()
    process.stdout.close()
    assert process.wait() == -9
    return answered


def _missing(url: str, answered: list[str]) -> list[str]:
    app = Penstock(url)
    found = {job.id for job in app.jobs.iterate()}
    app.close()
    assert len(answered) <= len(found)
    return [job_id for job_id in answered if job_id not in found]
