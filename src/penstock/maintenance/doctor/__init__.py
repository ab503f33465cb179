"""The doctor: checks a store, its jobs and this host, and gives a hint for each finding.

Nothing is changed. Checks that depend on something broken are skipped.

"""

from __future__ import annotations

from penstock.domain.errors import PenstockError, hint_for
from penstock.domain.maintenance import Finding, Level, error
from penstock.domain.ports.store import Store
from penstock.maintenance import integrity
from penstock.maintenance.doctor import servers, work
from penstock.maintenance.doctor.host import Host, Limits, file_findings, host_findings


def examine(store: Store, *, host: Host | None = None, limits: Limits | None = None) -> list[Finding]:
    """Return all findings, including those without a problem."""
    host, limits = host or Host(), limits or Limits()
    found = [*host_findings(host, limits)]
    if store.dialect == "sqlite":
        found += file_findings(store, host, limits)
    found += integrity.schema(store)
    if any(each.level is Level.ERROR and each.check in ("store.reachable", "store.schema") for each in found):
        if store.dialect == "postgres":
            found = servers.with_pooler_hints(found, store)
        return found
    try:
        if store.dialect == "postgres":
            found += servers.server_findings(store, limits)
        with servers.reachable_store(store, found) as reachable:
            found += [work.clock_finding(reachable, host, limits), *work.work_findings(reachable, limits)]
    except PenstockError as problem:
        found.append(
            error("store.reachable", problem.message, hint_for("cli", problem.hint) or "Check that it is reachable.")
        )
    return found
