"""What every test may ask for.

Servers start when the first test asks for them, once per test process; parallel processes share nothing.
A test that stops a server starts it again before it ends.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from tests.applications import app, app_database, file_app, memory_app, new_app, postgres_app
from tests.services import PgBouncer, PostgresServer, unavailable
from tests.stages import engine_database, quiet_stage, shared_stage, stage
from tests.time_limit import TimeLimit

__all__ = [
    "app", "app_database", "engine_database", "file_app", "memory_app", "new_app", "postgres_app", "quiet_stage",
    "shared_stage", "stage",
]  # fmt: skip

Server = TypeVar("Server", PostgresServer, PgBouncer)


class Counts(Protocol):
    """How often to repeat: few times in everyday runs, many times under `make soak`."""

    def __call__(self, ci: int = 20, soak: int = 1000) -> int: ...


class Figures(Protocol):
    """Report a measured result; it appears at the end of the run and in the file PENSTOCK_FIGURES."""

    def __call__(self, name: str, **values: object) -> None: ...


LEFT_TO_SOAK: dict[str, tuple[str, ...]] = {
    "tests/background/test_alert_duty.py": ("[sqlite-memory",),
    "tests/client/": ("[sqlite-memory",),
    "tests/config/": ("[sqlite-memory",),
    "tests/definitions/": ("[sqlite-memory",),
    "tests/job_files/": ("[sqlite-memory",),
    "tests/operations/": ("[sqlite-memory",),
    "tests/worker/test_ageing.py": ("[sqlite-memory",),
    "tests/cli/test_bulk.py": ("[store]",),
    "tests/cli/test_jobs.py": ("[store",),
    "tests/cli/test_nouns.py": ("[store]",),
    "tests/cli/test_watch.py": ("[store",),
    "tests/worker/test_blocked_loop.py": ("postgres",),
    "tests/worker/test_cancel.py": ("postgres",),
    "tests/isolation/test_confinement.py": ("postgres",),
    "tests/launch/test_embedded_lease.py": ("postgres",),
    "tests/worker/test_endings.py": ("postgres",),
    "tests/worker/test_faults.py": ("postgres",),
    "tests/worker/test_faults_poison.py": ("postgres",),
    "tests/worker/test_hooks.py": ("postgres",),
    "tests/worker/test_inline.py": ("postgres",),
    "tests/execution/test_inside_a_job.py": ("postgres",),
    "tests/job_files/test_job_files.py": ("postgres",),
    "tests/worker/test_leaks.py": ("postgres",),
    "tests/worker/test_limits.py": ("postgres",),
    "tests/isolation/test_output.py": ("postgres",),
    "tests/execution/test_phases.py": ("postgres",),
    "tests/launch/test_reload.py": ("postgres",),
    "tests/background/test_schedules_live.py": (
        "[sqlite-4]",
        "[postgres-2]",
        "paused_schedule_makes_nothing_until_it_is_resumed[postgres",
    ),
    "tests/isolation/test_secrets.py": ("postgres",),
    "tests/worker/test_slow_store.py": ("sqlite",),
    "tests/worker/test_stop.py": ("postgres",),
    "tests/worker/test_stop_control.py": ("postgres",),
    "tests/launch/test_tick_command.py": ("postgres",),
    "tests/background/test_webhooks.py": ("postgres",),
    "tests/worker/test_worker_config.py": ("postgres",),
    "tests/storage/test_access.py": ("postgres-16",),
    "tests/storage/test_ageing.py": ("postgres-16",),
    "tests/storage/test_alerts.py": ("postgres-16",),
    "tests/storage/test_archive.py": ("postgres-16",),
    "tests/storage/test_archive_crash.py": ("postgres-16",),
    "tests/storage/test_claimable.py": ("postgres-16",),
    "tests/storage/test_controls.py": ("postgres-16",),
    "tests/storage/test_count.py": ("postgres-16",),
    "tests/storage/test_counts.py": ("postgres-16",),
    "tests/storage/test_definition_texts.py": ("postgres-16",),
    "tests/storage/test_delete.py": ("postgres-16",),
    "tests/storage/test_deliveries.py": ("postgres-16",),
    "tests/storage/test_duties.py": ("postgres-16",),
    "tests/storage/test_emit.py": ("postgres-16",),
    "tests/storage/test_errors.py": ("postgres-16",),
    "tests/storage/test_get.py": ("postgres-16",),
    "tests/storage/test_heartbeat.py": ("postgres-16",),
    "tests/storage/test_histories.py": ("postgres-16",),
    "tests/storage/test_hooks.py": ("postgres-16",),
    "tests/storage/test_limit_pairs.py": (
        "[postgres-18-concurrency-by-key-and-pause",
        "[postgres-18-concurrency-by-key-and-unique",
        "[postgres-18-concurrency-by-key-and-ahead",
        "[postgres-18-rate-and",
        "[postgres-18-pause",
        "[postgres-18-priority",
        "[postgres-18-unique",
    ),
    "tests/storage/test_list.py": ("postgres-16",),
    "tests/storage/test_list_ways.py": ("postgres-16",),
    "tests/storage/test_logs.py": ("postgres-16",),
    "tests/storage/test_logs_and_attempts.py": ("postgres-16",),
    "tests/storage/test_phases.py": ("postgres-16",),
    "tests/storage/test_postgres_binding.py": ("postgres-16",),
    "tests/storage/test_progress.py": ("postgres-16",),
    "tests/storage/test_query_plans.py": ("postgres_16",),
    "tests/storage/test_register.py": ("postgres-16",),
    "tests/storage/test_reprioritise.py": ("postgres-16",),
    "tests/storage/test_reschedule.py": ("postgres-16",),
    "tests/storage/test_retention.py": ("postgres-16",),
    "tests/storage/test_retention_under_load.py": ("postgres-16",),
    "tests/storage/test_retry.py": ("postgres-16",),
    "tests/storage/test_review.py": ("postgres-16",),
    "tests/storage/test_schedules.py": ("postgres-16",),
    "tests/storage/test_select.py": ("postgres-16",),
    "tests/storage/test_settings.py": ("postgres-16",),
    "tests/storage/test_stats.py": ("postgres-16",),
    "tests/storage/test_tick.py": ("postgres-16",),
    "tests/storage/test_tidy.py": ("postgres-16",),
    "tests/storage/test_try_endpoint.py": ("postgres-16",),
    "tests/storage/test_unreadable.py": ("postgres-16",),
    "tests/storage/test_webhooks.py": ("postgres-16",),
    "tests/storage/test_why.py": ("postgres-16",),
    "tests/storage/test_worker_end.py": ("postgres-16",),
    "tests/storage/test_workers.py": ("postgres-16",),
    "tests/ui/test_administration_pages.py": ("",),
    "tests/ui/test_dashboard.py": ("empty_page_is_accessible[sqlite-dark",),
    "tests/ui/test_story.py": ("[Mouse]",),
    "tests/ui/test_work_pages.py": ("",),
    "tests/http/test_audit_rows.py": ("postgres",),
    "tests/http/test_bad_requests.py": ("postgres",),
    "tests/http/test_browser_guards.py": ("postgres",),
    "tests/http/test_canary.py": ("postgres",),
    "tests/http/test_definitions.py": ("postgres",),
    "tests/http/test_events.py": ("postgres",),
    "tests/http/test_figures.py": ("postgres",),
    "tests/http/test_mounted.py": ("postgres",),
    "tests/http/test_raw_requests.py": ("postgres",),
    "tests/http/test_roles.py": ("postgres",),
    "tests/http/test_schedules.py": ("postgres",),
    "tests/http/test_schemathesis.py": ("postgres",),
    "tests/http/test_serve.py": ("postgres",),
    "tests/http/test_tokens.py": ("postgres",),
    "tests/http/test_two_servers.py": ("[0]",),
    "tests/http/test_webhook_routes.py": ("postgres",),
    "tests/http/test_why.py": ("postgres",),
    "tests/http/test_workers.py": ("postgres",),
}
"""What an everyday run leaves out to stay within its time, by file or folder and parts of the id: the same commands
once more on the other way to a store, what workers and routes do once more over the other store (what the stores do
themselves is shown on both), applications once more in memory, a second walk through the pages."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeLimit(), "penstock-time-limit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("PENSTOCK_SOAK") == "1" or config.option.keyword or config.option.file_or_dir:
        return
    left = [each for each in items if _is_left_to_soak(each.nodeid)]
    config.hook.pytest_deselected(items=left)
    items[:] = [each for each in items if not _is_left_to_soak(each.nodeid)]


def _is_left_to_soak(nodeid: str) -> bool:
    left = (parts for place, parts in LEFT_TO_SOAK.items() if nodeid.startswith(place))
    return any(part in nodeid for parts in left for part in parts)


@pytest.fixture(scope="session", autouse=True)
def no_ignored_signal_is_inherited() -> None:
    """Let the programs that tests start handle signals by default, also under `nohup make test &`.

    A program inherits that a signal is ignored, but not that it is handled: the tests themselves go on as before.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_15() -> Iterator[PostgresServer]:
    """Debian's PostgreSQL, older than those of the wheel; `make soak` runs the store suite on it where it is."""
    yield from _running(PostgresServer(15))


@pytest.fixture(scope="session")
def postgres_16() -> Iterator[PostgresServer]:
    yield from _running(PostgresServer(16))


@pytest.fixture(scope="session")
def postgres_18() -> Iterator[PostgresServer]:
    yield from _running(PostgresServer(18))


@pytest.fixture(scope="session")
def postgres(postgres_18: PostgresServer) -> PostgresServer:
    """The newest PostgreSQL, for tests to which the version is all the same."""
    return postgres_18


@pytest.fixture(scope="session", params=["postgres_16", "postgres_18"])
def any_postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """Every PostgreSQL we support in turn: the test runs once for each."""
    server: PostgresServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A PgBouncer in transaction mode in front of `postgres`."""
    if PgBouncer.program() is None:
        unavailable("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
    yield from _running(PgBouncer(postgres))


@pytest.fixture(scope="session")
def soak() -> bool:
    return os.environ.get("PENSTOCK_SOAK") == "1"


@pytest.fixture(scope="session")
def counts(soak: bool) -> Counts:
    many = soak

    def choose(ci: int = 20, soak: int = 1000) -> int:
        return soak if many else ci

    return choose


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    def report(name: str, **values: object) -> None:
        line = " ".join(["FIGURE", name, *(f"{key}={value}" for key, value in values.items())])
        # Properties travel with the test's report, also from a parallel process to the one that prints.
        request.node.user_properties.append(("figure", line))
        if path := os.environ.get("PENSTOCK_FIGURES"):
            with Path(path).open("a") as file:
                file.write(line + "\n")

    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for key, line in report.user_properties
        if key == "figure"
    ]
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.write_line(line)


def _running(server: Server) -> Iterator[Server]:
    try:
        yield server.start()
    finally:
        server.remove()
