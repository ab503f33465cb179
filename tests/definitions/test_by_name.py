"""Creating jobs by the name of a definition whose code may be elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock import InvalidInput, InvalidPayload, NotFound, Penstock
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import jobs
from tests.applications import NewApp
from tests.definitions import shapes
from tests.waiting import wait_until


def test_a_process_without_the_code_creates_jobs_that_fit_the_stored_schema(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work", priority=15, max_attempts=2, default_params={"copies": 3})(shapes.plain).enqueue("first")

    job = here.enqueue("work", {"to": "ada"}, tags=["x"]).refresh()

    assert (job.definition_key, job.definition_version, job.params) == (
        "work",
        1,
        {"to": "ada", "copies": 3},
    )
    assert (job.priority, job.max_attempts, job.tags) == (15, 2, ("x",))


async def test_a_process_without_the_code_creates_jobs_in_the_event_loop(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    await there.job("work")(shapes.plain).aenqueue("first")

    handle = await here.aenqueue("work", {"to": "ada"}, delay=60)

    assert (await handle.arefresh()).params == {"to": "ada"}
    await here.aclose()
    await there.aclose()


def test_a_process_that_has_no_code_at_all_creates_jobs(new_app: NewApp, tmp_path: object) -> None:
    there = new_app()
    there.job("work")(shapes.plain).enqueue("first")
    program = (
        "import sys; from penstock import Penstock\n"
        "app = Penstock(sys.argv[1], schema=sys.argv[2])\n"
        "print(app.enqueue('work', {'to': 'ada'}).id)\n"
        "app.close()\n"
    )
    store = there.store
    url = getattr(store, "url", None) or f"sqlite:///{store.path}"  # type: ignore[attr-defined]

    done = subprocess.run(
        [sys.executable, "-c", program, url, getattr(store, "schema", "penstock")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert there.get(done.stdout.strip()).job.params == {"to": "ada"}


@pytest.mark.parametrize(
    ("params", "path", "problem"),
    [
        ({"to": 5}, "/to", '5 is not of type "string"'),
        ({}, "", '"to" is a required property'),
        ({"to": "a", "copys": 1}, "", "Did you mean 'copies'"),
    ],
)
def test_parameters_that_do_not_fit_the_stored_schema_are_refused(
    new_app: NewApp, params: dict[str, object], path: str, problem: str
) -> None:
    there, here = new_app(), new_app()
    there.job("work")(shapes.plain).enqueue("first")

    with pytest.raises(InvalidPayload, match=problem) as raised:
        here.enqueue("work", params)

    assert raised.value.path == path
    assert len(here.jobs.list().jobs) == 1


def test_a_secret_of_a_stored_definition_is_not_told(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("login", secret=["password"])(shapes.login).enqueue("ada", 1)

    with pytest.raises(InvalidPayload) as raised:
        here.enqueue("login", {"user": "ada", "password": "hunter2"})

    assert "hunter2" not in str(raised.value)


def test_without_a_version_own_code_gives_its_highest(app: Penstock) -> None:
    app.job("work", version=1)(shapes.plain)
    app.job("work", version=3)(shapes.asynchronous)

    newest = app.enqueue("work", {"to": "a"})
    chosen = app.enqueue("work", {"to": "a"}, definition_version=1)

    assert (newest.refresh().definition_version, chosen.refresh().definition_version) == (3, 1)


def test_without_a_version_and_without_code_it_is_the_highest_that_a_live_worker_serves(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work", version=1)(shapes.plain).enqueue("a")
    there.job("work", version=2)(shapes.asynchronous).enqueue("a")
    before = here.enqueue("work", {"to": "a"}).refresh().definition_version

    lane = there.session.memory.routes["work", 1].lane
    worker = WorkerInfo(id=there.session.ids.new_id(), name="old", host="here", pid=1, lanes=(lane,))
    there.store.run(jobs.register_worker(worker, 60_000_000))

    assert before == 2
    wait_until(
        lambda: here.enqueue("work", {"to": "a"}).refresh().definition_version == 1, "the worker's version is taken"
    )
    assert here.enqueue("work", {"to": "a"}, definition_version=2).refresh().definition_version == 2


def test_a_new_version_is_found_while_the_process_goes_on(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work")(shapes.plain).enqueue("a")
    assert here.enqueue("work", {"to": "a"}).refresh().definition_version == 1

    there.job("work", version=2)(shapes.login).enqueue("a", 1)

    def taken() -> bool:
        try:
            return here.enqueue("work", {"user": "a", "password": 1}).refresh().definition_version == 2
        except InvalidPayload:
            return False

    wait_until(taken, "version 2 is taken")


def test_the_concurrency_key_that_is_a_parameter_is_found_without_the_code(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work", concurrency_key="to")(shapes.plain).enqueue("first")
    there.job("defaulted", concurrency_key="copies")(shapes.plain).enqueue("first")

    assert here.enqueue("work", {"to": "ada"}).refresh().concurrency_key == "ada"
    assert here.enqueue("work", {"to": "ada"}, concurrency_key="own").refresh().concurrency_key == "own"
    assert here.enqueue("defaulted", {"to": "ada"}).refresh().concurrency_key == "1"


def test_a_concurrency_key_that_only_the_code_knows_must_be_given(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work", concurrency_key=lambda params: "x")(shapes.plain).enqueue("first")

    with pytest.raises(InvalidInput, match="Only the code of 'work' can compute the concurrency key"):
        here.enqueue("work", {"to": "ada"})

    assert here.enqueue("work", {"to": "ada"}, concurrency_key="x").refresh().concurrency_key == "x"


def test_a_definition_that_is_registered_later_is_found_then(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    with pytest.raises(NotFound, match="'work'"):
        here.enqueue("work", {"to": "ada"})

    there.job("work")(shapes.plain).enqueue("first")

    assert here.enqueue("work", {"to": "ada"}).created


def test_code_that_comes_later_takes_the_place_of_what_was_read(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    there.job("work")(shapes.plain).enqueue("first")
    here.enqueue("work", {"to": "ada"})

    own = here.job("work", priority=17)(shapes.plain)

    assert own.enqueue("ada").refresh().priority == 17
    assert here.enqueue("work", {"to": "ada"}).refresh().priority == 17
