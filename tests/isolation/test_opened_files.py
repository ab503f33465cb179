"""What an application opens while it is imported goes on working in its jobs, or the worker names it at its start."""

from __future__ import annotations

import socket

import pytest

from tests.worker.fleet import Stage

HEAD = """
import json, logging, os
from penstock import Penstock
{opens}
app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])
"""
LOG = """
logging.basicConfig(filename={path!r}, format="%(message)s", level="INFO", **{more!r})
"""


@pytest.mark.parametrize("mode", ["a", "w"])
def test_a_log_file_that_is_opened_at_import_gets_the_lines_of_every_job(stage: Stage, mode: str) -> None:
    path = stage.folder / "app.log"
    stage.project(
        HEAD.format(opens=LOG.format(path=str(path), more={"filemode": mode}))
        + """
logging.info("imported")

@app.job("speak")
def speak(n: int) -> int:
    for _ in range(20):
        logging.getLogger("mine").info("job %d", n)
    return n
"""
    )

    jobs = [stage.app.enqueue("speak", {"n": n}) for n in range(6)]

    assert [job.result(30) for job in jobs] == list(range(6))
    lines = path.read_text().splitlines()
    assert lines.count("imported") == 1
    assert sorted(line for line in lines if line.startswith("job")) == sorted(
        f"job {n}" for n in range(6) for _ in range(20)
    )


def test_text_that_was_buffered_at_import_is_written_once(stage: Stage) -> None:
    path = stage.folder / "report.txt"
    stage.project(
        HEAD.format(opens=f"report = open({str(path)!r}, 'a')\nreport.write('imported ')")
        + """
@app.job("speak")
def speak() -> None:
    report.write("job ")
"""
    )

    jobs = [stage.app.enqueue("speak") for _ in range(3)]
    for job in jobs:
        job.result(30)

    assert path.read_text().split() == ["imported", "job", "job", "job"]


def test_jobs_that_read_a_file_which_is_open_since_the_import_do_not_move_each_other(stage: Stage) -> None:
    path = stage.folder / "table.bin"
    path.write_bytes(bytes(range(200)) * 1000)
    stage.project(
        HEAD.format(opens=f"table = open({str(path)!r}, 'rb', buffering=0)\ntable.seek(5)")
        + """
@app.job("read")
def read() -> list[int]:
    return [table.read(1)[0] for _ in range(50)]
"""
    )

    jobs = [stage.app.enqueue("read") for _ in range(6)]

    assert [job.result(30) for job in jobs] == [list(range(5, 55))] * 6


def test_log_lines_sent_as_datagrams_leave_from_jobs(stage: Stage) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(30)
        host, port = receiver.getsockname()
        handler = f"logging.handlers.SysLogHandler(({host!r}, {port}))"
        stage.project(
            HEAD.format(opens=f"import logging.handlers\nlogging.basicConfig(level='INFO', handlers=[{handler}])")
            + """
@app.job("speak")
def speak() -> None:
    logging.info("from a job")
"""
        )

        stage.app.enqueue("speak").result(30)

        assert b"from a job" in receiver.recv(65_536)


def test_a_pipe_that_is_open_since_the_import_is_closed_in_jobs_and_the_worker_names_it(stage: Stage) -> None:
    worker = stage.project(
        HEAD.format(opens="reader, writer = os.pipe()")
        + """
@app.job("look")
def look() -> list[str]:
    return sorted(os.readlink(f"/proc/self/fd/{name}").partition(":")[0] for name in os.listdir("/proc/self/fd")
                  if os.path.lexists(f"/proc/self/fd/{name}"))
"""
    )

    found = stage.app.enqueue("look").result(30)

    assert "opened descriptors that jobs cannot share" in worker.output
    assert worker.output.count("(pipe:[") == 2
    assert found.count("pipe") == 2, "standard output and standard errors only"


def test_a_database_pool_and_a_thread_pool_at_import_are_refused_with_what_to_do(stage: Stage) -> None:
    refused = stage.project(
        HEAD.format(
            opens="""
import socket
from concurrent.futures import ThreadPoolExecutor
server = socket.create_server(("127.0.0.1", 0))
connections = [socket.create_connection(server.getsockname()) for _ in range(2)]
pool = ThreadPoolExecutor(2)
pool.submit(int)
"""
        ),
        wait=False,
    )

    assert refused.wait() != 0
    assert "thread(s) run and 3 socket(s) are open" in refused.output
    assert "as a resource" in refused.output
    assert "Traceback" not in refused.output


def test_numpy_logs_and_results_go_together(stage: Stage) -> None:
    path = stage.folder / "app.log"
    stage.project(
        HEAD.format(opens="import numpy\n" + LOG.format(path=str(path), more={}))
        + """
first = numpy.arange(5)

@app.job("add")
def add() -> int:
    logging.info("added")
    return int(first.sum())
"""
    )

    assert stage.app.enqueue("add").result(30) == 10
    assert path.read_text() == "added\n"
