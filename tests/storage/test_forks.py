"""Forks: parent and children enqueue through one application, as under a web server that forks its workers."""

from __future__ import annotations

import multiprocessing
import operator
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from penstock import Penstock, StoreUnavailable
from tests.applications import NewApp
from tests.definitions import shapes
from tests.waiting import wait_until

CHILDREN = 4
EACH = 10
SECONDS = 60


def test_parent_and_forked_children_enqueue_and_nothing_is_lost(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    work.enqueue("parent-before")

    def child(number: int) -> None:
        for each in range(EACH):
            work.enqueue(f"child-{number}-{each}")

    children = [_fork(partial(child, number)) for number in range(CHILDREN)]
    for each in range(EACH):
        work.enqueue(f"parent-{each}")
    for pid in children:
        _joined(pid)
    work.enqueue("parent-after")

    expected = {"parent-before", "parent-after", *(f"parent-{each}" for each in range(EACH))}
    expected |= {f"child-{number}-{each}" for number in range(CHILDREN) for each in range(EACH)}
    assert _names(app) == expected


PROGRAM = """
import os, sys
from penstock import Penstock

app = Penstock(sys.argv[1], schema=sys.argv[2])

@app.job("work")
def work(to: str) -> None: ...

def connections() -> object:
    if app.store.dialect == "sqlite":
        return None
    with app.store._pool().connection() as connection:
        return connection.info.backend_pid

work.enqueue("before")
first = connections()
for way in ("unused", "used", "closed"):
    pid = os.fork()
    if not pid:
        if way != "unused":
            work.enqueue("child-" + way)
        if way == "closed":
            app.close()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    work.enqueue("after-" + way)
assert connections() == first
app.close()
"""


def test_children_that_end_like_any_program_leave_the_parent_its_connections(new_app: NewApp) -> None:
    app = new_app()
    store = app.store
    url = getattr(store, "url", None) or f"sqlite:///{store.path}"  # type: ignore[attr-defined]

    command = [sys.executable, "-W", "error", "-c", PROGRAM, url, getattr(store, "schema", "penstock")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    assert (done.returncode, done.stderr) == (0, "")
    assert _names(app) == {"before", "after-unused", "child-used", "after-used", "child-closed", "after-closed"}


def test_children_of_multiprocessing_enqueue_too(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    work.enqueue("parent")

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work.enqueue, args=(f"child-{number}",)) for number in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join(SECONDS)

    assert [child.exitcode for child in children] == [0] * 6
    assert _names(app) == {"parent", *(f"child-{number}" for number in range(6))}


def test_a_child_may_fork_again(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    work.enqueue("parent")

    def child() -> None:
        work.enqueue("child")
        _joined(_fork(lambda: work.enqueue("grandchild")))
        work.enqueue("child-after")

    _joined(_fork(child))

    assert _names(app) == {"parent", "child", "grandchild", "child-after"}


def test_a_fork_while_other_threads_enqueue_and_read_gives_children_that_work(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    known = work.enqueue("first").id
    done, made, errors = threading.Event(), [0, 0, 0], []

    def busy(index: int) -> None:
        try:
            while not done.is_set():
                if index == 2:
                    app.jobs.read(known)
                else:
                    work.enqueue(f"thread-{index}-{made[index]}")
                made[index] += 1
        except BaseException as error:
            errors.append(error)
            raise

    def child(number: int) -> None:
        for each in range(3):
            work.enqueue(f"child-{number}-{each}")

    threads = [threading.Thread(target=busy, args=(index,), daemon=True) for index in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            before = list(made)
            wait_until(lambda: all(map(operator.gt, made, before)), "every thread has done something more")  # noqa: B023
            _joined(_fork(partial(child, number)))
    finally:
        done.set()
    for thread in threads:
        thread.join(SECONDS)

    names = _names(app)
    assert errors == []
    assert {name for name in names if name.startswith("child")} == {
        f"child-{number}-{each}" for number in range(10) for each in range(3)
    }
    assert len(names) == 1 + 30 + made[0] + made[1]


def test_a_fork_waits_until_a_thread_that_writes_has_committed(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    work = app.job("work")(shapes.plain)
    work.enqueue("first")
    other = apsw.Connection(str(tmp_path / "jobs.db"))
    other.execute("BEGIN IMMEDIATE")
    writer = threading.Thread(target=work.enqueue, args=("thread",))
    writer.start()
    wait_until(lambda: app.store._mine.lock.locked(), "the thread holds the lock and waits for the file")  # type: ignore[attr-defined]

    def free() -> None:
        wait_until(lambda: "before_fork" in _functions_of(threading.main_thread()), "the fork waits")
        other.close()

    freeing = threading.Thread(target=free)
    freeing.start()
    pid = _fork(lambda: work.enqueue("child"))

    _joined(pid)
    writer.join()
    freeing.join()
    assert _names(app) == {"first", "thread", "child"}
    app.close()


def test_locks_hold_between_parent_and_child(tmp_path: Path) -> None:
    """SQLite keeps its locks per process; a child that inherits the parent's would not take any of its own."""
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    work = app.job("work")(shapes.plain)
    work.enqueue("parent")
    ready, go = tmp_path / "ready", tmp_path / "go"

    def child() -> None:
        work.enqueue("child")
        ready.touch()
        wait_until(go.exists, "the parent is gone from the file")
        work.enqueue("child-after")

    pid = _fork(child)
    wait_until(ready.exists, "the child has the file open")
    app.close()
    stranger = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    stranger.job("work")(shapes.plain).enqueue("stranger")
    stranger.close()
    go.touch()
    _joined(pid)

    assert _names(app) == {"parent", "child", "stranger", "child-after"}
    checked = apsw.Connection(str(tmp_path / "jobs.db"))
    assert list(checked.execute("PRAGMA integrity_check")) == [("ok",)]
    checked.close()
    app.close()


def test_a_store_in_memory_stays_with_its_process(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    work.enqueue("parent")

    def child() -> None:
        with pytest.raises(StoreUnavailable, match="belongs to the process that opened it"):
            work.enqueue("child")

    _joined(_fork(child))

    assert work.enqueue("after").created
    assert _names(memory_app) == {"parent", "after"}


def test_a_store_in_memory_may_be_opened_after_the_fork(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)

    _joined(_fork(lambda: work.enqueue("child")))

    assert memory_app.jobs.list().jobs == []


def _names(app: Penstock) -> set[str]:
    names = [str(job.params["to"]) for job in app.jobs.iterate()]
    return set(names)


def _functions_of(thread: threading.Thread) -> list[str]:
    """The names of the functions that a thread is in."""
    frame = sys._current_frames()[thread.ident or 0]
    return [each.name for each in traceback.extract_stack(frame)]


def _fork(run: Callable[[], object]) -> int:
    """Run something in a fork of this process; its error is written to stderr."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _joined(pid: int) -> None:
    """Wait for a child, which must end well."""

    def ended() -> tuple[int, int] | None:
        found, status = os.waitpid(pid, os.WNOHANG)
        return (found, status) if found else None

    found = wait_until(ended, f"child {pid} ended", timeout=SECONDS)
    assert found is not None
    assert os.waitstatus_to_exitcode(found[1]) == 0
