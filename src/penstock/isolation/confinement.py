"""Confinement: what a forked child gives up before it runs a handler.

The order matters: session and signals first, then descriptors, limits, user, and last what a change of user undoes.
"""

from __future__ import annotations

import _signal
import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.isolation import capabilities
from penstock.isolation.opened_files import OpenedFiles
from penstock.runtime import processes
from penstock.runtime.stop_signals import STOP_SIGNALS

ALLOWED = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
"""Environment variables that every job sees; others must be allowed by name."""

CONTROL = 3
"""The descriptor of a child's line to its worker."""

_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals whose causes Python raises as errors."""

_UMASK = 0o077
_OOM_SCORE = b"800"
_CPU_LEFT = 5
_PROTECTED = 4
_MOST_DESCRIPTORS = 1 << 20
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Rules:
    """The resources that one attempt may use."""

    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None
    cpu: int | None = None
    files: int | None = None
    file_size: int | None = None
    processes: int | None = None
    user: int | None = None
    group: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The rules that are set."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a child inherits from its zygote and may not keep, looked up once for all children."""

    signals: tuple[int, ...]
    """Those that the zygote does not leave to their default as Python sees it, as plain numbers; the stop signals are
    ignored in a child as in its zygote."""
    variables: tuple[str, ...]
    """Those of its environment."""
    files: OpenedFiles
    """Those that its application opened."""

    @staticmethod
    def find(files: OpenedFiles) -> Inherited:
        kept = (*_IGNORED, *STOP_SIGNALS)
        found = [int(number) for number in signal.valid_signals() if number not in kept]
        handled = [number for number in found if signal.getsignal(number) not in (signal.SIG_DFL, None)]
        return Inherited(tuple(handled), tuple(os.environ), files)


def detach(handled: Sequence[int]) -> None:
    """Leave the zygote's session, and drop its signal handlers and wake-up descriptor."""
    # The plain functions: those of `signal` look up an enum for each number, which costs a child more than all of this.
    _signal.set_wakeup_fd(-1)
    for number in handled:
        _signal.signal(number, _signal.SIG_DFL)
    os.setsid()


def prepare(visible: Sequence[str]) -> None:
    """Give up once, in the zygote, what every child would inherit and none may have.

    `visible`: the environment variables that some definition names.
    """
    _set_limit(resource.RLIMIT_CORE, 0)
    os.umask(_UMASK)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    processes.gain_no_privileges()
    capabilities.give_up_inheritance()
    block = _environment_block()
    kept = allowed_environment(visible, os.environ)
    os.environ.clear()
    os.environ.update(kept)
    if block is not None:
        # /proc/self/environ would still show the environment with which this process was started.
        ctypes.memset(block[0], 0, block[1])


def keep_only(control: int, output: int, errors: int, files: OpenedFiles) -> None:
    """Output and errors go to the worker; its line, the empty standard input and files of the application stay open.

    None of the three is given by a number that another is to get: the zygote has these taken.
    """
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.dup2(control, CONTROL, False)
    files.reopen()
    first = _PROTECTED
    for number in files.numbers:
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, _MOST_DESCRIPTORS)


def confine(rules: Rules, parent: int, variables: Sequence[str]) -> None:
    """Take on the limits, the user and the environment of a job; `variables` are those of the zygote."""
    processes.adopt_orphans()
    # Unlike its zygote: the worker weighs the memory of jobs. A change of user refuses it again.
    processes.allow_inspection()
    _limit(rules)
    _raise_oom_score()
    _become(rules)
    capabilities.give_up()
    # A change of user clears it; and the parent may have gone before it was set.
    processes.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    os.chdir(rules.folder)
    _set_environment(rules.environment, variables)
    _reseed()


def rehearse() -> None:
    """The steps of `confine` that do not change a process."""
    processes.adopt_orphans()
    present = dict(os.environ)
    _set_environment({**present, "PENSTOCK_REHEARSAL": ""}, ())
    _set_environment(present, tuple(os.environ))
    _data_size()


def allowed_environment(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a job may see."""
    return {name: given[name] for name in (*ALLOWED, *names) if name in given}


def reserve_descriptors() -> None:
    """Take the numbers that a child uses for its own descriptors, the first with an empty standard input.

    This comes before the import of the application, whose files must not get one of these numbers.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.set_inheritable(0, True)
    for number in range(1, _PROTECTED):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null, number, False)
    if null >= _PROTECTED:
        os.close(null)


def _environment_block() -> tuple[int, int] | None:
    """Where this process was given its environment: begin and length in memory."""
    try:
        with open("/proc/self/stat", "rb") as file:
            facts = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    begin, end = int(facts[47]), int(facts[48])
    return (begin, end - begin) if 0 < begin < end else None


def _limit(rules: Rules) -> None:
    if rules.cpu is not None:
        _set_limit(resource.RLIMIT_CPU, rules.cpu, _CPU_LEFT)
    if rules.files is not None:
        _set_limit(resource.RLIMIT_NOFILE, rules.files)
    if rules.file_size is not None:
        _set_limit(resource.RLIMIT_FSIZE, rules.file_size)
    if rules.memory is not None:
        _set_limit(resource.RLIMIT_DATA, rules.memory + _data_size())
    if rules.processes is not None and (rules.user or os.getuid()):
        _set_limit(resource.RLIMIT_NPROC, rules.processes + _threads_of(rules.user or os.getuid()))


def _set_limit(which: int, value: int, left: int = 0) -> None:
    """Lower a limit; one that is lower already stays."""
    hard = resource.getrlimit(which)[1]
    ceiling = value + left if hard == resource.RLIM_INFINITY else min(hard, value + left)
    resource.setrlimit(which, (min(value, ceiling), ceiling))


def _data_size() -> int:
    """The data that the process has inherited from the zygote, which does not count."""
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY)
        pages = os.read(file, 200).split()[5]
        os.close(file)
    except OSError:
        return 0
    return int(pages) * _PAGE


def _threads_of(user: int) -> int:
    """How many threads the user has: the kernel's limit counts all of them, not the processes of one job."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    # A folder for each thread, and the two that every folder has.
                    count += max(1, os.stat(f"/proc/{name}/task").st_nlink - 2)
    return count


def _raise_oom_score() -> None:
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(file, _OOM_SCORE)
        os.close(file)
    except OSError:
        pass


def _become(rules: Rules) -> None:
    if rules.user is None:
        return
    if os.getuid() == 0:
        os.setgroups([])
    if rules.group is not None:
        os.setresgid(rules.group, rules.group, rules.group)
    os.setresuid(rules.user, rules.user, rules.user)


def _set_environment(wanted: Mapping[str, str], present: Sequence[str]) -> None:
    for name in present:
        if name not in wanted:
            del os.environ[name]
    for name, value in wanted.items():
        if name not in present or os.environ[name] != value:
            os.environ[name] = value


def _reseed() -> None:
    # Python's own generator is reseeded after a fork.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        with contextlib.suppress(Exception):
            numpy.random.seed()
