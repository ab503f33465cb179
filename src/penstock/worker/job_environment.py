"""The environment of jobs: their folders, their user, and the variables that they see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import stat
from collections.abc import Iterable, Mapping

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.definition import Definition
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.worker_config import DefaultLimits
from penstock.isolation.confinement import Rules, allowed_environment
from penstock.isolation.declared_secrets import DeclaredSecrets
from penstock.isolation.job_folders import WorkerFolder, remove_tree
from penstock.runtime.service import log
from penstock.worker.claimed_job import ClaimedJob

_PRIVATE = 0o700


class JobEnvironment:
    """Makes the rules under which the children of one worker run."""

    def __init__(self, settings: WorkerSettings, definitions: Iterable[Definition]) -> None:
        self.limits: DefaultLimits = DefaultLimits()
        """The limits of definitions that set none."""
        self.secrets: DeclaredSecrets = DeclaredSecrets(settings.secrets, settings.environment)
        """The secrets in parameters and in the environment."""
        self._settings = settings
        self._user = _user(settings, definitions)
        self._folder = WorkerFolder(settings.folder)
        self._spare: list[str] = []
        self._stamps: dict[str, int] = {}
        self._seen: dict[tuple[str, ...], dict[str, str]] = {}

    def open(self) -> None:
        """Make the folder that holds the private folders of jobs."""
        self._folder.open()

    def close(self) -> None:
        self._folder.close()

    def admit(self, definitions: Iterable[Definition]) -> None:
        """Raise when reloaded code would run as root without permission."""
        _user(self._settings, definitions)

    def rules(self, definition: Definition, job_id: str, more: Mapping[str, str] | None = None) -> Rules:
        """The rules for a child that runs this definition; its folder must be given back."""
        user, group = self._user
        folder = self._private_folder()
        own = {"HOME": folder, "TMPDIR": folder, "PENSTOCK_JOB_ID": job_id}
        limits = self.limits
        return Rules(
            folder=folder,
            environment={**self._visible(definition), **own, **(more or {})},
            memory=_first(definition.memory, limits.memory),
            cpu=_first(definition.cpu, limits.cpu),
            files=_first(definition.files, limits.files),
            file_size=_first(definition.file_size, limits.file_size),
            processes=_first(_first(definition.processes, limits.processes), self._settings.processes),
            user=user,
            group=group,
        )

    def job_rules(self, job: ClaimedJob) -> Rules:
        """The rules of one attempt."""
        claimed = job.claimed
        numbers = {"PENSTOCK_FENCE": str(claimed.fence), "PENSTOCK_ATTEMPT": str(claimed.attempt)}
        return self.rules(job.definition, claimed.job_id, numbers)

    async def give_back(self, rules: Rules) -> None:
        """Take a child's folder back: an empty one is used again, any other is removed with its contents."""
        folder = rules.folder
        try:
            # Any change of a folder or of its entries changes this time, and no program can reset it.
            untouched = os.lstat(folder).st_ctime_ns == self._stamps[folder]
            if untouched or not os.listdir(folder):
                self._spare.append(folder)
                return
        except OSError:
            pass
        del self._stamps[folder]
        await asyncio.to_thread(_remove, folder)

    def _private_folder(self) -> str:
        """An empty folder for one child. Making and removing one for each job would cost more than its process."""
        while self._spare:
            folder = self._spare.pop()
            with contextlib.suppress(OSError):
                found = os.lstat(folder)
                if found.st_ctime_ns != self._stamps[folder]:
                    if not stat.S_ISDIR(found.st_mode):
                        raise NotADirectoryError(folder)
                    os.chmod(folder, _PRIVATE)
                    self._stamps[folder] = os.lstat(folder).st_ctime_ns
                return folder
        try:
            folder = self._new_folder()
        except FileNotFoundError:
            # A cleanup of temporary files has removed the folder that holds them all.
            self._folder.open()
            folder = self._new_folder()
        user, group = self._user
        if user is not None:
            os.chown(folder, user, -1 if group is None else group)
        self._stamps[folder] = os.lstat(folder).st_ctime_ns
        return folder

    def _new_folder(self) -> str:
        # A name that a job of the worker's own user cannot guess and take.
        folder = os.path.join(self._folder.path, os.urandom(8).hex())
        os.mkdir(folder, _PRIVATE)
        return folder

    def _visible(self, definition: Definition) -> dict[str, str]:
        """The variables of the worker's environment that jobs of a definition see."""
        names = definition.visible
        if names not in self._seen:
            self._seen[names] = allowed_environment((*self._settings.environment, *names), os.environ)
        return self._seen[names]


def _first(limit: int | None, otherwise: int | None) -> int | None:
    return otherwise if limit is None else limit


def _remove(folder: str) -> None:
    """Remove the folder of a job; log what cannot be removed."""
    try:
        remove_tree(folder)
    except OSError as error:
        log.warning("%s cannot be removed: %s", folder, error)


def _user(settings: WorkerSettings, definitions: Iterable[Definition]) -> tuple[int | None, int | None]:
    """The user and group of jobs; root only with explicit permission."""
    if settings.user is not None:
        try:
            found = pwd.getpwuid(int(settings.user)) if settings.user.isdigit() else pwd.getpwnam(settings.user)
        except KeyError:
            raise InvalidInput(f"There is no user {settings.user!r} on this host.") from None
        if os.getuid() not in (0, found.pw_uid):
            raise InvalidInput(f"Only root can run jobs as {settings.user!r}.")
        return found.pw_uid, found.pw_gid
    if os.getuid() == 0 and not settings.allow_root and any(each.isolation == "process" for each in definitions):
        raise InvalidInput(
            "This worker runs as root, and so would its jobs.",
            hint=Hint(
                'Name a user for them: user="nobody"; or allow it: allow_root=True.',
                cli="Name a user for them (--user nobody), or allow it (--allow-root).",
                http="The operator of this server has to name a user for jobs, or to allow root.",
            ),
        )
    return None, None
