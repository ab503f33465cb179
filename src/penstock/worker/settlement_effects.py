"""What happens in a worker once endings of its attempts are on record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.domain.states import Status
from penstock.domain.worker import SettleReport
from penstock.runtime.log_lines import about
from penstock.runtime.service import log
from penstock.worker.claimed_job import ClaimedJob
from penstock.worker.claimer import Claimer
from penstock.worker.hooks import Hooks
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pools
from penstock.worker.running_attempts import RunningAttempts
from penstock.worker.settler import Ending


class SettlementEffects:
    """Forgets settled attempts, and wakes the services that their endings give something to do."""

    def __init__(
        self,
        config: LiveConfig,
        pools: Pools,
        attempts: RunningAttempts,
        claimer: Claimer,
        hooks: Hooks,
        counts: dict[str, int],
        *,
        promote: Callable[[], None],
        call_hooks: Callable[[], None],
    ) -> None:
        self._config = config
        self._pools = pools
        self._attempts = attempts
        self._claimer = claimer
        self._hooks = hooks
        self._counts = counts
        self._promote = promote
        self._call_hooks = call_hooks

    def apply(self, report: SettleReport, endings: Sequence[Ending]) -> None:
        """Endings are on record, or were refused."""
        self._count(report)
        limited, running = self._config.limited, self._attempts.by_job
        for _, settlement, job in (each for each in endings if limited or running or not each[1].lone):
            if job is not None and running:
                running.pop(job.held, None)
            if settlement.status is Status.SCHEDULED:
                self._promote()
            if job and (job.claimed.lane in limited or job.claimed.concurrency_key is not None):
                # Its ending has made room for another job of the same limit.
                self._refill_slot_of(job)
        if self._hooks.lanes:
            self._call_hooks()

    def _count(self, report: SettleReport) -> None:
        self._counts["settled"] += len(report.applied) + len(report.repeated)
        self._counts["refused"] += len(report.refused)
        for held in report.refused:
            log.warning(
                "the ending of job %s came too late: another attempt owns it", held.job_id, extra=about(held.job_id)
            )

    def _refill_slot_of(self, job: ClaimedJob) -> None:
        is_inline = job.definition.isolation == "inline"
        self._claimer.refill(self._pools.inline if is_inline else self._pools.process)
