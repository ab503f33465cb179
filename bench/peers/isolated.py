"""RQ and Celery with a process for every job, for `bench/isolated.py`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from bench.peers.installing import python
from bench.peers.redis_server import Redis

RQ = """
import sys, time
from redis import Redis
from rq import Queue, SimpleWorker, Worker
from tasks import nothing
connection = Redis(unix_socket_path=sys.argv[1])
connection.flushall()
queue = Queue(connection=connection)
count = int(sys.argv[2])
queue.enqueue_many([Queue.prepare_data(nothing) for _ in range(count)])
began = time.perf_counter()
Worker([queue], connection=connection).work(burst=True, logging_level="ERROR")
seconds = time.perf_counter() - began
done = queue.finished_job_registry.count
assert done == count, (done, count)
print(count / seconds)
"""

TASKS = """
import os
from celery import Celery

def nothing():
    return None

app = Celery("tasks", broker=f"redis+socket://{os.environ['BENCH_REDIS']}", backend=f"redis+socket://{os.environ['BENCH_REDIS']}")
app.conf.worker_max_tasks_per_child = 1
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 4

@app.task
def nothing_celery():
    return None
"""

CELERY = """
import sys, time
from redis import Redis
Redis(unix_socket_path=sys.argv[1]).flushall()
from tasks import nothing_celery
count = int(sys.argv[2])
results = [nothing_celery.delay() for _ in range(count)]
print("queued", flush=True)
results[0].get(timeout=60)
began = time.perf_counter()
for each in results:
    each.get(timeout=300)
print((count - 1) / (time.perf_counter() - began))
"""


def rq(folder: Path, server: Redis, count: int) -> float:
    """One worker that forks for each job."""
    (folder / "tasks.py").write_text(TASKS)
    return float(_python(folder, server, RQ, count).split()[-1])


def celery(folder: Path, server: Redis, count: int) -> float:
    """The prefork pool with two processes, each replaced after one task."""
    (folder / "tasks.py").write_text(TASKS)
    environment = {**os.environ, "BENCH_REDIS": str(server.socket)}
    worker = subprocess.Popen(
        [python(), "-m", "celery", "-A", "tasks", "worker", "--concurrency", "2", "--loglevel", "ERROR"],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return float(_python(folder, server, CELERY, count).split()[-1])
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def _python(folder: Path, server: Redis, source: str, count: int) -> str:
    done = subprocess.run(
        [python(), "-c", source, str(server.socket), str(count)],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "BENCH_REDIS": str(server.socket)}, timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout
