"""Real workers in processes of their own, and what is looked at in them from outside."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock import JobHandle, Penstock
from penstock.domain.attempt import Attempt, StoredLog
from penstock.domain.event import Event
from penstock.domain.job import Job
from penstock.runtime import processes
from penstock.storage.commands import admin, feed
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
QUICK = ("--lease", "3", "--heartbeat", "0.5", "--poll", "0.2", "--stop-grace", "1")
PATIENCE = 30.0


def open_descriptors() -> set[tuple[str, str]]:
    """Those of this process, with what they are; compared as sets, for others may be closed meanwhile."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


class WorkerProcess:
    """One `penstock worker`; killed at the end, whatever happens."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path, folder: Path = ROOT) -> None:
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                process_group=0,
            )  # fmt: skip
        self.pid = self._process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        return self._process.poll()

    @property
    def zygote(self) -> int:
        """The pid of the zygote."""
        return wait_until(lambda: processes.children(self.pid), "the worker has a zygote")[0]

    def children(self) -> list[int]:
        """The attempts that run: processes below the zygote, and what is below them."""
        return [pid for pid in processes.descendants(self.pid) if pid != self.zygote]

    def ready(self) -> WorkerProcess:
        wait_until(lambda: " runs " in self.output or not self.alive, "the worker is registered", PATIENCE)
        assert self.alive, self.output
        return self

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def send_to_tree(self, number: int) -> None:
        """Send a signal to the worker and to every process below it, as systemd does with a control group."""
        for pid in (self.pid, *processes.descendants(self.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> int:
        """Ask it to stop and wait for that; its exit code."""
        if self.alive:
            self.send(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        return self._process.wait(timeout)

    def kill(self) -> None:
        below = processes.descendants(self.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
            self._process.kill()
        self._process.wait(10)
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Stage:
    """A store, the scripted application on it, and workers to be started."""

    def __init__(self, url: str, schema: str, folder: Path) -> None:
        self.url = url
        self.schema = schema
        self.folder = folder
        # Jobs of other users write there too, and pytest closes its own folders to them at every start.
        self._open_folder = Path(tempfile.mkdtemp(prefix="engine-journal-"))
        self._open_folder.chmod(0o711)
        self.journal_path = self._open_folder / "journal"
        self.journal_path.touch()
        self.journal_path.chmod(0o666)
        self.app = Penstock(url, schema=schema, migrate=True)
        self.workers: list[WorkerProcess] = []
        self.environment = {
            **os.environ,
            "PENSTOCK_TEST_STORE": url,
            "PENSTOCK_TEST_SCHEMA": schema,
            "PENSTOCK_TEST_JOURNAL": str(self.journal_path),
            "PYTHONPATH": str(ROOT),
        }
        _ = self.app.store

    def worker(
        self, *flags: str, target: str = "tests.worker.scripted:app", quick: bool = True, wait: bool = True,
        environment: dict[str, str] | None = None, root: bool = True,
    ) -> WorkerProcess:  # fmt: skip
        """Start a worker; `flags` are those of the command line, and without `root` it is not told to run as root."""
        allowed = ["--allow-root"] if root and os.getuid() == 0 and "--user" not in flags else []
        command = [sys.executable, "-m", "penstock", "worker", target, *allowed, *(QUICK if quick else ()), *flags]
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess(command, {**self.environment, **(environment or {})}, log)
        self.workers.append(worker)
        return worker.ready() if wait else worker

    def project(self, source: str, *flags: str, name: str = "project", wait: bool = True) -> WorkerProcess:
        """Write a module of a user's own and start a worker for it."""
        (self.folder / f"{name}.py").write_text(textwrap.dedent(source))
        path = f"{self.folder}{os.pathsep}{ROOT}"
        return self.worker(*flags, target=f"{name}:app", wait=wait, environment={"PYTHONPATH": path})

    def enqueue(self, key: str, script: Sequence[Sequence[Any]] = (), **options: Any) -> JobHandle[Any]:
        """Create a job with a script; the definition must have been registered by a worker."""
        return self.app.enqueue(key, {"script": [list(step) for step in script]}, **options)

    def end(self, job: JobHandle[Any] | str, timeout: float = PATIENCE) -> Job:
        """Wait for a job to end."""
        return self.app.wait_for(job if isinstance(job, str) else job.id, timeout)

    def until(self, job: JobHandle[Any], *statuses: str, timeout: float = PATIENCE) -> Job:
        """Wait until a job stands in one of these states."""
        wait_until(lambda: job.refresh().status in statuses, f"the job is {' or '.join(statuses)}", timeout)
        return job.job

    def attempts(self, job: JobHandle[Any]) -> list[Attempt]:
        return self.app.store.run(admin.attempts(job.id))

    def events(self, job: JobHandle[Any]) -> list[Event]:
        return self.app.store.run(feed.of_job(job.id))

    def kinds(self, job: JobHandle[Any]) -> list[str]:
        """The events of a job in their order, progress left out."""
        return [event.type for event in self.events(job) if event.type != "job.progress"]

    def logs(self, job: JobHandle[Any]) -> list[StoredLog]:
        return self.app.store.run(admin.logs(job.id, limit=500))

    def journal(self, job: JobHandle[Any] | None = None, what: str | None = None) -> list[dict[str, Any]]:
        """What attempts wrote down themselves."""
        text = self.journal_path.read_text()
        # Somebody may be writing: what is behind the last whole line does not count yet.
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [
            line for line in lines if (job is None or line["job"] == job.id) and (what is None or line["what"] == what)
        ]

    def hooks(self, job: JobHandle[Any], *names: str) -> list[str]:
        """The hooks of a job that were called, in alphabetical order, once these were."""
        for name in names:
            self.noted(job, name)
        return sorted(line["what"] for line in self.journal(job) if line["what"].startswith("on_"))

    def noted(self, job: JobHandle[Any], what: str, count: int = 1, timeout: float = PATIENCE) -> list[dict[str, Any]]:
        """Wait until an attempt of the job has written something down."""

        def found() -> list[dict[str, Any]]:
            lines = self.journal(job, what)
            return lines if len(lines) >= count else []

        return wait_until(found, f"{what!r} is noted {count} times", timeout)

    def eventually(self, fact: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
        return wait_until(fact, what, timeout)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.app.close()
        shutil.rmtree(self._open_folder)


def overlaps(lines: Sequence[dict[str, Any]]) -> int:
    """How many attempts ran at once at most, by their own records; one that was killed ends with its last line."""
    spans: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        spans.setdefault((line["job"], line["fence"]), []).append(line["at"])
    moments = sorted(
        [(min(times), 1) for times in spans.values()] + [(max(times), -1) for times in spans.values()],
        key=lambda moment: (moment[0], moment[1]),
    )
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def gone(pid: int) -> bool:
    """Whether a process is no more; one that waits to be reaped counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class JobFolder:
    """A folder of job files, saved to as editors do, and the commands that run them."""

    def __init__(self, stage: Stage, name: str = "jobs") -> None:
        self.stage = stage
        self.path = stage.folder / name

    def save(self, name: str, text: str) -> None:
        """Write a file beside the right one, then put it in its place."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f".{path.name}.saving")
        written.write_text(textwrap.dedent(text))
        written.replace(path)

    def worker(self, *flags: str, wait: bool = True) -> WorkerProcess:
        """Start `penstock worker --jobs` on it."""
        return command(self.stage, "worker", "--jobs", str(self.path), "--store", self.stage.url, *QUICK, *flags,
                       wait=wait)  # fmt: skip

    def result(self, key: str) -> Any:
        """What a new job of a definition gives."""
        return self.stage.app.enqueue(key).result(PATIENCE)

    def comes_to_give(self, key: str, result: Any) -> None:
        """Run jobs of a definition until one gives this."""
        wait_until(lambda: self.result(key) == result, f"{key} gives {result!r}", PATIENCE)


class Gate:
    """Where a job stops until it is let through; `text` is the body of a handler that does so."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self._reached = folder / f"{name}-reached"
        self._open = folder / f"{name}-open"
        self.text = (
            f"import os, time; open({str(self._reached)!r}, 'a').write('x')\n"
            f"    while not os.path.exists({str(self._open)!r}): time.sleep(0.01)\n"
        )

    def wait(self, times: int = 1) -> None:
        """Wait until attempts stand before it."""
        wait_until(lambda: self.passed >= times, f"{times} attempt(s) have begun", PATIENCE)

    @property
    def passed(self) -> int:
        """How many attempts have come so far."""
        return len(self._reached.read_text()) if self._reached.exists() else 0

    def open(self) -> None:
        self._open.touch()


def command(
    stage: Stage, name: str, *arguments: str, folder: Path | None = None, wait: bool = True, root: bool = True
) -> WorkerProcess:
    """Start a command of `penstock`, in the folder of the stage unless another is given; `root` as for `worker`."""
    allowed = ["--allow-root"] if root and os.getuid() == 0 else []
    line = [sys.executable, "-m", "penstock", name, *allowed, *arguments]
    log = stage.folder / f"{name}-{len(stage.workers)}.log"
    environment = {**stage.environment, "PENSTOCK_SCHEMA": stage.schema}
    started = WorkerProcess(line, environment, log, folder or stage.folder)
    stage.workers.append(started)
    return started.ready() if wait else started
