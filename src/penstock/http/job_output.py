"""Jobs as JSON text in answers, with secret parameters masked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from penstock.app import Penstock
from penstock.domain.job import Job
from penstock.domain.job_json import iso, job_text, phases_text, review_text
from penstock.domain.phases import ONLY, all_phases
from penstock.domain.secrets.policy import SecretPolicy
from penstock.operations.secret_search import refuse_secret_names
from penstock.storage.commands import admin
from penstock.storage.commands import jobs as verbs

_FRESH = 5.0
"""Seconds for which the secret fields of definitions are cached."""


class JobOutput:
    """Writes jobs as JSON, and knows which parameters of a definition are secret."""

    def __init__(self, app: Penstock, policy: SecretPolicy) -> None:
        self._app = app
        self._policy = policy
        self._fields: dict[tuple[str, int], tuple[str, ...]] = {}
        """Secret fields by definition and version; without definitions that cannot be read."""
        self._phases: dict[tuple[str, int], tuple[str, ...]] = {}
        self._read_at = -_FRESH

    async def learn(self, jobs: Iterable[Job]) -> None:
        """Read the definitions if the cache is old or does not have the definition of one of these jobs."""
        await self._refresh({(job.definition_key, job.definition_version) for job in jobs})

    def refuse_secrets(self, names: Iterable[str]) -> None:
        """Refuse searches by parameters with the names of secrets."""
        refuse_secret_names(names, self._policy)

    def params(self, key: str, version: int, text: str) -> str:
        """Return parameters with secrets masked."""
        return self._shown(self._fields.get((key, version)), text)

    def job(self, job: Job, **more: str | None) -> str:
        """Return a job as JSON text; call `learn` with it first."""
        return job_text(job, params=self.params(job.definition_key, job.definition_version, job.params_text), **more)

    async def schedule_params(self, key: str, version: int | None, text: str) -> str:
        """Return the parameters of a schedule, masked if they are secret in any version that may run."""
        if not self._versions(key, version):
            self._read_at = -_FRESH
        await self._refresh(set())
        known = self._versions(key, version)
        return self._shown([name for pair in known for name in self._fields[pair]] if known else None, text)

    async def phases(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return the phases of jobs as JSON text, by id; call `learn` with them first."""
        names = {job.id: self._phases.get((job.definition_key, job.definition_version), (ONLY,)) for job in jobs}
        several = [job_id for job_id, each in names.items() if len(each) > 1]
        kept = await self._app.store.arun(verbs.phases_of(several)) if several else {}
        return {job.id: phases_text(all_phases(job, names[job.id], kept.get(job.id, ()))) for job in jobs}

    async def detail(self, job_id: str) -> str:
        """Return a job with its phases, its reviews and its worker's lease."""
        job = await self._app.jobs.aread(job_id)
        await self.learn([job])
        # A job is shown even if its definition cannot be read.
        phases = (await self.phases([job]))[job.id]
        reviews = await self._app.store.arun(admin.reviews(job.id))
        worker = None
        if job.worker_id is not None:
            worker = next((each for each in await self._app.workers.alist() if each.id == job.worker_id), None)
        return self.job(
            job,
            phases=phases,
            reviews=f"[{','.join(map(review_text, reviews))}]",
            heartbeatAt=json.dumps(None if worker is None else iso(worker.heartbeat_at)),
            leaseExpiresAt=json.dumps(None if worker is None else iso(worker.lease_expires_at)),
        )

    async def _refresh(self, wanted: set[tuple[str, int]]) -> None:
        if time.monotonic() - self._read_at < _FRESH and wanted <= self._fields.keys():
            return
        rows = [row for row in await self._app.store.arun(admin.definitions()) if row.error is None]
        self._fields = {(row.definition.key, row.definition.version): row.definition.secret_fields for row in rows}
        self._phases = {(row.definition.key, row.definition.version): row.definition.phases for row in rows}
        self._read_at = time.monotonic()

    def _versions(self, key: str, version: int | None) -> list[tuple[str, int]]:
        return [pair for pair in self._fields if pair[0] == key and version in (None, pair[1])]

    def _shown(self, fields: Sequence[str] | None, text: str) -> str:
        """Mask parameters with these secret fields; mask all of them if the secret fields are unknown."""
        return self._policy.mask(list(json.loads(text)) if fields is None else fields, text)
