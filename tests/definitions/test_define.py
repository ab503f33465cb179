"""@app.job: what can be a definition, what its options become, and what is refused."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, get_overloads

import pytest

from penstock import Backoff, DefinitionHandle, InvalidDefinition, InvalidInput, Penstock, RateLimit
from penstock.definitions.decorator import OPTIONS
from penstock.definitions.schedule_options import SCHEDULE_OPTIONS
from penstock.domain.definition import Definition
from penstock.domain.retry import Fixed, Steps
from penstock.storage.commands import admin
from tests.definitions import shapes


def test_a_bare_decorator_takes_module_and_name_as_key(memory_app: Penstock) -> None:
    @memory_app.job
    def send(to: str) -> str:
        return to

    assert send.key == "tests.definitions.test_define.test_a_bare_decorator_takes_module_and_name_as_key.send"
    assert send.definition.version == 1


@pytest.mark.parametrize("form", [(), (None,), ("mail.send",)])
def test_a_decorator_with_parentheses_takes_a_key_or_none(memory_app: Penstock, form: tuple[Any, ...]) -> None:
    handle: DefinitionHandle[Any, Any] = memory_app.job(*form)(shapes.plain)

    assert handle.key == (form[0] if form and form[0] else "tests.definitions.shapes.plain")


def test_the_function_stays_what_it_was(memory_app: Penstock) -> None:
    handle: Any = memory_app.job("work")(shapes.plain)

    assert handle("a", copies=3) == "a x 3"
    assert handle.__name__ == "plain"
    assert handle.__doc__ == "Send something."
    assert inspect.signature(handle) == inspect.signature(shapes.plain)
    assert handle.definition.description == "Send something."


async def test_an_async_function_stays_one(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.asynchronous)

    assert await handle("four") == 4
    assert (await handle.aenqueue("a")).created


def test_the_options_become_the_definition(memory_app: Penstock) -> None:
    handle = memory_app.job(
        "work",
        version=3,
        description="Does it.",
        priority=20,
        max_attempts=7,
        backoff=[1, 2],
        timeout=timedelta(minutes=1),
        cancel_grace=0.5,
        concurrency=4,
        concurrency_key="to",
        key_concurrency=2,
        rate_limit="10/m",
        default_params={"copies": 2},
        secret=["copies"],
        stale_after=timedelta(days=1),
        delete_after=0,
        memory="512MB",
        cpu=timedelta(minutes=2),
        files=64,
        file_size="1.5GiB",
        processes=8,
        environment=["HOME", "LANG", "HOME"],
        on_end=print,
        on_start=print,
    )(shapes.plain)

    assert handle.definition == Definition(
        key="work", version=3, description="Does it.", priority=20, max_attempts=7, backoff=Steps([1, 2]),
        timeout=60_000_000, cancel_grace=500_000, concurrency=4, concurrency_key="to",
        key_concurrency=2, rate_limit=RateLimit(10, 60.0), default_params='{"copies":2}', secret_fields=("copies",),
        stale_after=86_400_000_000, delete_after=0, memory=512_000_000, cpu=120, files=64, file_size=1_610_612_736,
        processes=8, environment=("HOME", "LANG"), hooks=("on_start", "on_end"),
        handler="tests.definitions.shapes:plain", source="tests/definitions/shapes.py",
    )  # fmt: skip


def test_without_options_the_definition_has_its_defaults(memory_app: Penstock) -> None:
    handle = memory_app.job("work", description="")(shapes.plain)

    assert handle.definition == Definition(
        key="work", handler="tests.definitions.shapes:plain", source="tests/definitions/shapes.py"
    )


def test_every_option_can_be_given(memory_app: Penstock) -> None:
    signature = inspect.signature(get_overloads(Penstock.job)[1])

    assert [name for name in signature.parameters if name not in ("self", "key")] == [*OPTIONS, *SCHEDULE_OPTIONS]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"backoff": 3}, "backoff", Fixed(3)),
        ({"backoff": Backoff(base=1)}, "backoff", Backoff(base=1)),
        ({"timeout": None}, "timeout", None),
        ({"rate_limit": RateLimit(2, 5)}, "rate_limit", RateLimit(2, 5)),
        ({"rate_limit": " 5 / d "}, "rate_limit", RateLimit(5, 86_400.0)),
        ({"concurrency_key": "to"}, "key_concurrency", 1),
        ({"concurrency_key": lambda params: params["to"]}, "concurrency_key", ""),
        ({"concurrency_key": "to", "key_concurrency": 0}, "key_concurrency", 0),
        ({"secret": ("to", "copies")}, "secret_fields", ("to", "copies")),
        ({"memory": 20_000_000}, "memory", 20_000_000),
        ({"memory": " 64 mib "}, "memory", 64 * 1024 * 1024),
        ({"memory": "0.5TB"}, "memory", 500_000_000_000),
        ({"file_size": "100kB"}, "file_size", 100_000),
        ({"file_size": "7b"}, "file_size", 7),
        ({"file_size": 0}, "file_size", 0),
        ({"cpu": 3.0}, "cpu", 3),
    ],
)
def test_an_option_may_be_written_in_several_ways(
    memory_app: Penstock, options: dict[str, Any], field: str, value: object
) -> None:
    handle = memory_app.job("work", **options)(shapes.plain)

    assert getattr(handle.definition, field) == value


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"priorty": 5}, "work: 'priorty' is not an option of @app.job", "Did you mean 'priority'?"),
        ({"schema": "{}"}, "'schema' is not an option", ""),
        ({"queue": "x"}, "'queue' is not an option", "There are: version, description"),
        ({"version": 0}, "work: version must be a positive integer", ""),
        ({"version": "2"}, "work: version must be an integer, not '2'", ""),
        ({"version": True}, "work: version must be an integer, not True", ""),
        ({"priority": 21}, "work: priority must be an integer from 0 to 20", ""),
        ({"priority": -1}, "work: priority must be", ""),
        ({"priority": 5.0}, "work: priority must be an integer", ""),
        ({"max_attempts": 0}, "work: max_attempts must be 1 to 1000", ""),
        ({"max_attempts": "3"}, "work: max_attempts must be an integer", ""),
        ({"backoff": "often"}, "work: Retry policy", ""),
        ({"backoff": [-1]}, "work: Retry policy", ""),
        ({"timeout": -1}, "work: timeout must be between 0 seconds", ""),
        ({"timeout": 0}, "work: timeout must be more than 0", "None means that there is no limit"),
        ({"timeout": "1h"}, "work: timeout must be seconds or a timedelta", ""),
        ({"timeout": float("nan")}, "work: timeout must be", ""),
        ({"cancel_grace": True}, "work: cancel_grace must be seconds", ""),
        ({"stale_after": timedelta(days=-1)}, "work: stale_after must be between", ""),
        ({"isolation": "thread"}, "work: isolation is 'process' or 'inline'", ""),
        ({"concurrency": -1}, "work: concurrency must not be negative", ""),
        ({"concurrency": 1.5}, "work: concurrency must be an integer", ""),
        ({"concurrency_key": "copys"}, "'copys' is not a parameter.*work: concurrency_key", "'copies'"),
        ({"concurrency_key": 5}, "work: concurrency_key must be the name", ""),
        ({"key_concurrency": 2}, "work: key_concurrency needs a concurrency_key", ""),
        ({"concurrency_key": "to", "key_concurrency": -1}, "work: key_concurrency must not be negative", ""),
        ({"rate_limit": "fast"}, "work: 'fast' is not a rate limit", '"10/s"'),
        ({"rate_limit": "10/year"}, "work: '10/year' is not a rate limit", ""),
        ({"rate_limit": "0/s"}, "count must be an integer of at least 1", ""),
        ({"rate_limit": 10}, "work: 10 is not a rate limit", ""),
        ({"default_params": {"copys": 1}}, "'copys' is not a parameter.*default_params", "'copies'"),
        ({"default_params": [1]}, "work: default_params must be a mapping", ""),
        ({"default_params": {"to": object()}}, "work: default_params at /to is of type object", ""),
        ({"secret": "to"}, "work: secret must be a list of texts", ""),
        ({"secret": ["to"], "concurrency_key": "to"}, "work: 'to' is secret and cannot be the concurrency_key", "hash"),
        ({"secret": ["copie"]}, "'copie' is not a parameter.*secret", "'copies'"),
        ({"description": 5}, "work: description must be a text", ""),
        ({"memory": "512"}, "work: memory: '512' is not a size", '"512MB"'),
        ({"memory": "much"}, "work: memory: 'much' is not a size", ""),
        ({"memory": 512}, "work: memory must be at least 10000000 bytes, not 512", '"512MB"'),
        ({"memory": 1e9}, "work: memory must be an integer", ""),
        ({"memory": "99999999TB"}, "work: memory must be at least", ""),
        ({"cpu": 0}, "work: cpu must be at least 1 seconds", ""),
        ({"cpu": 1.5}, "work: cpu must be whole seconds", ""),
        ({"cpu": "1h"}, "work: cpu must be seconds or a timedelta", ""),
        ({"files": 3}, "work: files must be at least 16", ""),
        ({"files": True}, "work: files must be an integer", ""),
        ({"file_size": -1}, "work: file_size must be at least 0 bytes", ""),
        ({"processes": 0}, "work: processes must be at least 1", ""),
        ({"environment": "HOME"}, "work: environment must be a list of texts", ""),
        ({"environment": ["A=B"]}, "work: 'A=B' cannot be the name of an environment variable", ""),
        ({"environment": [""]}, "work: '' cannot be the name", ""),
        ({"on_start": "shout"}, "work: on_start must be a function, not 'shout'", ""),
        ({"on_begin": print}, "'on_begin' is not an option", ""),
        ({"retry_on": "ValueError"}, "work: retry_on takes classes of exceptions, not 'ValueError'", ""),
        ({"fatal_on": [ValueError()]}, "work: fatal_on takes classes of exceptions", ""),
        ({"fatal_on": BaseException}, "work: fatal_on takes classes of exceptions", ""),
        ({"retry_on": OSError, "fatal_on": [OSError]}, "work: OSError is in both retry_on and fatal_on", ""),
        ({"isolation": "inline"}, "work: isolation='inline' needs an async def, and plain is none", "leave isolation"),
    ],
)
def test_an_option_that_is_wrong_is_refused(
    memory_app: Penstock, options: dict[str, Any], problem: str, hint: str
) -> None:
    with pytest.raises(InvalidDefinition, match=problem) as raised:
        memory_app.job("work", **options)(shapes.plain)

    assert hint in raised.value.hint
    assert memory_app.definitions.declared == []


@pytest.mark.parametrize(
    "limit",
    [{"memory": "64MB"}, {"cpu": 1}, {"files": 16}, {"file_size": 1}, {"processes": 1}, {"environment": ["HOME"]}],
    ids=lambda limit: next(iter(limit)),
)
def test_what_cannot_be_held_inside_the_worker_is_refused_inline(memory_app: Penstock, limit: dict[str, Any]) -> None:
    memory_app.job("trusted", isolation="inline")(shapes.asynchronous)

    with pytest.raises(InvalidDefinition, match=f"work: {next(iter(limit))} cannot hold") as raised:
        memory_app.job("work", isolation="inline", **limit)(shapes.asynchronous)

    assert "isolation='process'" in raised.value.hint


def test_what_only_the_code_can_tell_stays_with_the_handle(memory_app: Penstock) -> None:
    handle = memory_app.job("work", retry_on=OSError, fatal_on=[KeyError, TypeError], on_fail=print)(shapes.plain)

    chosen = handle.options(priority=1)

    for each in (handle, chosen):
        assert each.retry_on == (OSError,)
        assert each.fatal_on == (KeyError, TypeError)
        assert each.hooks == {"on_fail": print}
        assert each.steps == handle.steps
    assert handle.definition.hooks == ("on_fail",)


@pytest.mark.parametrize(
    "rate", [{"count": "1"}, {"count": True}, {"count": 1, "period": "1"}, {"count": 1, "period": 0}]
)
def test_a_rate_limit_that_is_wrong_is_refused(rate: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="rate limit's"):
        RateLimit(**rate)


def _generator() -> Any:
    yield 1


async def _async_generator() -> Any:
    yield 1


def _starred(*args: int) -> None: ...


def _positional_only(one: int, /, two: int) -> None: ...


def _late_context(one: int, ctx: Any) -> None: ...


class Klass:
    def method(self, one: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (_generator, "_generator is a generator"),
        (_async_generator, "_async_generator is a generator"),
        (Klass, "@app.job needs a function, not <class"),
        (Klass.method, r"Klass.method is a method of a class"),
        (functools.partial(shapes.plain, "a"), "@app.job needs a function"),
        (5, "@app.job needs a function, not 5"),
        (print, "@app.job needs a function"),
        (_starred, "parameter 'args' cannot be given by name"),
        (_positional_only, "parameter 'one' cannot be given by name"),
        (_late_context, "'ctx' must be the first parameter"),
        (lambda to: to, "A lambda has no name"),
    ],
)
def test_what_cannot_be_a_job_is_refused(memory_app: Penstock, function: Any, problem: str) -> None:
    with pytest.raises(InvalidDefinition, match=problem):
        memory_app.job(function)

    assert memory_app.definitions.declared == []


def test_a_definition_cannot_be_defined_again(memory_app: Penstock) -> None:
    handle = memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidDefinition, match=r"@app.job needs a function, not <definition 'work' version 1>"):
        memory_app.job("other")(handle)


def test_a_lambda_with_a_key_and_a_bound_method_can_be_jobs(memory_app: Penstock) -> None:
    by_key = memory_app.job("work")(lambda to: to)
    bound = memory_app.job("bound")(Klass().method)

    assert by_key.order("a").params == '{"to":"a"}'
    assert bound.order(1).params == '{"one":1}'


@pytest.mark.parametrize("key", ["", "ä", "with space", ".dot", "x" * 201, "a\nb"])
def test_a_key_that_cannot_be_one_is_refused(memory_app: Penstock, key: str) -> None:
    with pytest.raises(InvalidDefinition, match="cannot be a definition's key"):
        memory_app.job(key)(shapes.plain)


def test_a_key_and_version_may_be_defined_once(memory_app: Penstock) -> None:
    memory_app.job("work")(shapes.plain)
    memory_app.job("work", version=2)(shapes.login)

    with pytest.raises(InvalidDefinition, match=r"'work' version 2 is defined twice: by .*login and .*plain") as raised:
        memory_app.job("work", version=2)(shapes.plain)

    assert "another key or version" in raised.value.hint
    assert [(each.key, each.definition.version) for each in memory_app.definitions.declared] == [
        ("work", 1),
        ("work", 2),
    ]


def test_a_module_may_be_loaded_twice(memory_app: Penstock, tmp_path: Path) -> None:
    source = (
        "def setup(app):\n    @app.job('work')\n    def work(n: int) -> int:\n        return n + {}\n    return work\n"
    )

    first = _load(tmp_path, "one", source.format(1)).setup(memory_app)
    second = _load(tmp_path, "two", source.format(1), file="one").setup(memory_app)
    edited = _load(tmp_path, "two", "\n\n" + source.format(5)).setup(memory_app)

    assert [handle(1) for handle in (first, second, edited)] == [2, 2, 6]
    assert memory_app.definitions.declared == [edited]
    assert edited.enqueue(1).refresh().definition_key == "work"


def test_a_script_has_the_key_that_it_would_have_as_a_module(tmp_path: Path) -> None:
    source = (
        "from penstock import Penstock\n"
        "app = Penstock('sqlite://')\n"
        "@app.job\n"
        "def send(to: str) -> None: ...\n"
        "print(send.key)\n"
    )
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mail.py").write_text(source)
    commands = [["tasks/mail.py"], ["-m", "tasks.mail"], ["-c", "import tasks.mail"], ["-c", source]]

    keys = [
        subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()
        for command in commands
    ]

    assert keys == ["mail.send", "tasks.mail.send", "tasks.mail.send", "__main__.send"]


def test_definitions_are_registered_with_their_schema_at_the_first_job(app: Penstock) -> None:
    handle = app.job("work", concurrency_key="to")(shapes.plain)
    other = app.job("other", version=2)(shapes.login)

    handle.enqueue("a")

    rows = {row.definition.key: row.definition for row in app.store.run(admin.definitions())}
    assert rows["work"].schema == handle.schema
    assert rows["work"].concurrency_key == "to"
    assert rows["other"].schema == other.schema
    assert rows["other"].version == 2


def test_a_definition_made_after_the_first_job_is_registered_with_its_own(app: Penstock) -> None:
    app.job("work")(shapes.plain).enqueue("a")

    late = app.job("late")(shapes.login)

    assert late.enqueue("a", 1).refresh().definition_key == "late"


def test_invalid_definitions_are_invalid_input() -> None:
    assert issubclass(InvalidDefinition, InvalidInput)


def _load(folder: Path, name: str, source: str, file: str | None = None) -> ModuleType:
    path = folder / f"{file or name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
