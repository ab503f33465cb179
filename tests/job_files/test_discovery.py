"""Job files: a folder of Python files, each a definition."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.retry import Fixed
from penstock.domain.schedule.schedule import Kind, Overlap
from penstock.execution.context import Resources
from penstock.job_files import discovery
from penstock.job_files.discovery import FilesApp
from penstock.testing import TestApp

PLAIN = "def run(ctx):\n    return 1\n"


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Path]:
    """An empty folder for job files, in a project of its own."""
    before, modules = list(sys.path), set(sys.modules)
    folder = tmp_path / "jobs"
    folder.mkdir()
    yield folder
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if name.startswith(("penstock_job_files", "jobs", "shared_")):
            del sys.modules[name]


# --- what a file says


def test_a_definition_is_named_by_its_path(jobs: Path) -> None:
    for path in ("cleanup.py", "reports/daily.py", "reports/a/b-c.py", "2fast.py"):
        _write(jobs, path)

    app = _make(jobs)

    assert sorted(each.key for each in app.definitions.declared) == [
        "2fast",
        "cleanup",
        "reports.a.b-c",
        "reports.daily",
    ]
    assert app.paths["reports.daily"] == "reports/daily.py"
    assert (app.problems, app.unread, app.schedules.declared) == ([], [], [])


def test_variables_are_options_and_the_docstring_describes(jobs: Path) -> None:
    _write(
        jobs,
        "mail.py",
        '''
        """Sends a mail.

        Slowly.
        """
        from datetime import timedelta

        version = 3
        priority = 15
        timeout = timedelta(minutes=5)
        retry_on = [ValueError]
        rate_limit = "10/s"
        default_params = {"to": "ann"}
        concurrency_key = "to"
        unrelated = object()

        def on_fail(ctx):
            pass

        async def run(ctx, to: str, copies: int = 1):
            return to
        ''',
    )

    (handle,) = _make(jobs).definitions.declared

    definition = handle.definition
    assert (definition.version, definition.priority, definition.description) == (3, 15, "Sends a mail.\n\nSlowly.")
    assert (definition.timeout, definition.hooks, handle.retry_on) == (300_000_000, ("on_fail",), (ValueError,))
    assert '"copies"' in handle.schema


def test_the_docstring_of_run_describes_where_the_file_has_none(jobs: Path) -> None:
    _write(jobs, "a.py", 'def run(ctx):\n    """Does it."""\n')
    _write(jobs, "b.py", '"""Of the file."""\ndescription = "As said."\ndef run(ctx): ...\n')

    a, b = _make(jobs).definitions.declared

    assert (a.definition.description, b.definition.description) == ("Does it.", "As said.")


def test_a_file_may_hold_phases(jobs: Path) -> None:
    steps = "def first(ctx, x: int = 1): ...\ndef second(ctx): ...\n"
    _write(jobs, "alone.py", f"{steps}phases = [first, ('last', second)]\n")
    _write(jobs, "before.py", f"{steps}phases = [first]\ndef run(ctx, x: int = 1): ...\n")

    alone, before = _make(jobs).definitions.declared

    assert alone.definition.phases == ("first", "last")
    assert before.definition.phases == ("first", "run")


def test_a_scheduled_file_has_defaults_of_its_own(jobs: Path) -> None:
    _write(jobs, "plain.py", f'schedule = "0 3 * * *"\ntimezone = "Europe/Paris"\n{PLAIN}')
    _write(jobs, "said.py", f'schedule = 90\nmax_attempts = 7\nbackoff = 60\noverlap = "allow"\njitter = 5\n{PLAIN}')
    _write(jobs, "none.py", f"schedule = None\n{PLAIN}")

    app = _make(jobs)

    none, plain, said = (each.definition for each in app.definitions.declared)
    assert (plain.max_attempts, plain.backoff) == (3, Fixed(5))
    assert (said.max_attempts, said.backoff) == (7, Fixed(60))
    assert none.backoff != Fixed(5)
    first, second = app.schedules.declared
    assert (first.key, first.definition_key, first.expression) == ("plain", "plain", "0 3 * * *")
    assert (first.timezone, first.overlap, first.owner) == ("Europe/Paris", Overlap.SKIP, "code")
    assert (second.kind, second.expression, second.overlap) == (Kind.INTERVAL, "1m30s", Overlap.ALLOW)


def test_files_run(jobs: Path) -> None:
    _write(jobs, "greet.py", "from jobs._words import HELLO\ndef run(ctx, name: str):\n    return f'{HELLO} {name}'\n")
    _write(jobs, "_words.py", "HELLO = 'hello'\n")
    app = _make(jobs)

    with TestApp(app) as kit:
        app.enqueue("greet", {"name": "ann"})
        (job,) = kit.drain().succeeded

    assert job.result == "hello ann"


def test_classes_of_a_file_work_as_in_any_module(jobs: Path) -> None:
    text = """
        from __future__ import annotations
        from dataclasses import dataclass
        from pydantic import BaseModel
        @dataclass
        class Size:
            width: int
        class Order(BaseModel):
            number: int
            size: Size
        def run(ctx, order: Order):
            return order.number * order.size.width
        """
    _write(jobs, "order.py", text)
    app = _make(jobs)

    with TestApp(app) as kit:
        app.enqueue("order", {"order": {"number": 2, "size": {"width": 21}}})
        (job,) = kit.drain().succeeded

    assert job.result == 42


def test_the_folder_tells_the_schedules_apart_unless_a_name_does(jobs: Path) -> None:
    assert _make(jobs).origin == "files:jobs"
    assert _make(jobs, name="shop").origin == "files:shop"


# --- what is no job file


def test_a_folder_that_is_missing_or_empty_holds_no_definitions(jobs: Path) -> None:
    for folder in (jobs, jobs / "missing"):
        app = _make(folder)
        assert (app.definitions.declared, app.problems, app.unread) == ([], [], [])


def test_private_and_hidden_files_and_folders_are_left_out(jobs: Path) -> None:
    for path in (
        *("_private.py", ".hidden.py", "__init__.py", "notes.txt", "jobs.pyc", "old.py~", ".#edited.py"),
        *("_shared/a.py", ".git/b.py", "__pycache__/c.py", "reports/_d.py"),
    ):
        _write(jobs, path, "raise RuntimeError\n")

    app = _make(jobs)

    assert (app.definitions.declared, app.problems) == ([], [])


def test_symbolic_links_do_no_harm(jobs: Path, tmp_path: Path) -> None:
    _write(tmp_path, "elsewhere/linked.py", PLAIN)
    (jobs / "linked.py").symlink_to(tmp_path / "elsewhere" / "linked.py")
    (jobs / "loop").symlink_to(jobs, target_is_directory=True)
    (jobs / "itself.py").symlink_to(jobs / "itself.py")
    (jobs / "dangling.py").symlink_to(jobs / "nowhere")

    app = _make(jobs)

    assert [each.key for each in app.definitions.declared] == ["linked"]
    error = "It cannot be read: it leads to no plain file."
    assert [str(each) for each in app.problems] == [f"dangling.py: {error}", f"itself.py: {error}"]


def test_what_is_no_plain_file_is_not_waited_for(jobs: Path) -> None:
    os.mkfifo(jobs / "pipe.py")

    app = _make(jobs)

    assert [each.file for each in app.problems] == ["pipe.py"]


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "line", "error"),
    [
        ("def run(ctx):\n    retrun 1\n", 2, "SyntaxError: invalid syntax."),
        ("x = 1\n  y = 2\n", 2, "IndentationError: unexpected indent."),
        ("def run(ctx):\n    '''\n", 2, "SyntaxError: unterminated triple-quoted string"),
        ("import nowhere.at.all\n", 1, "ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\n\nraise ValueError('no')\n", 3, "ValueError: no"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError"),
        ("x = 1\nimport sys\nsys.exit(3)\n", 3, "SystemExit: 3"),
        ("x = 1\n", 1, "there is no function run in it. Define def run"),
        ("x = 1\nrun = 5\n", 2, "there is no function run in it"),
        ("phases = 5\n", 1, "phases must be a list of functions, not 5"),
        ("def run(ctx): ...\nphases = [5]\n", 2, "a phase needs a function"),
        (f'{PLAIN}\nschedule = "0 3 * *"\n', 4, "The cron expression '0 3 * *' has 4 fields"),
        (f'schedule = "@daily"\n{PLAIN}timezone: str = "Mars/Olympus"\n', 4, "There is no time zone 'Mars/Olympus'"),
        (f'schedule = "@daily"\nmissed = "often"\n{PLAIN}', 2, "missed is one of skip, latest, all"),
        (f'timezone = "UTC"\n{PLAIN}', 1, "timezone without a schedule"),
        (f"{PLAIN}\ntimeout = 0\n", 4, "timeout must be more than 0"),
        (f"x = 1\npriority = 99\n{PLAIN}", 2, "priority must be an integer from 0 to 20"),
        (f'rate_limit = "often"\n{PLAIN}', 1, "'often' is not a rate limit"),
        (f"x = 1\nmax_attempts = 'three'\n{PLAIN}", 2, "max_attempts must be an integer"),
        ('schedule = "@daily"\ndef run(ctx, to: str): ...\n', 1, "to"),
        ("x = 1\ndef run(ctx, *names): ...\n", 2, "names"),
        ("x = '\0'\n", 1, "null bytes"),
    ],
)
def test_a_broken_file_is_a_problem_with_its_line_and_the_others_load(
    jobs: Path, text: str, line: int, error: str
) -> None:
    _write(jobs, "broken.py", text)
    _write(jobs, "a.py", PLAIN)
    _write(jobs, "z.py", PLAIN)

    app = _make(jobs)

    (problem,) = app.problems
    assert (problem.file, problem.line, problem.kept) == ("broken.py", line, False)
    assert error in problem.error
    assert str(problem) == f"broken.py:{line}: {problem.error}"
    assert [each.key for each in app.definitions.declared] == ["a", "z"]
    assert (app.schedules.declared, app.unread) == ([], ["broken"])
    assert "penstock_job_files.z" in sys.modules


def test_an_error_in_what_a_file_imports_is_told_with_the_line_of_the_import(jobs: Path) -> None:
    _write(jobs, "_shared_broken.py", "x =\n")
    _write(jobs, "a.py", f"import os\nfrom jobs import _shared_broken\n{PLAIN}")

    (problem,) = _make(jobs).problems

    assert (problem.file, problem.line) == ("a.py", 2)
    assert "_shared_broken.py, line 1" in problem.error


def test_a_file_that_is_not_utf_8_is_a_problem_with_its_line(jobs: Path) -> None:
    (jobs / "latin.py").write_bytes(b"x = 1\ny = '\xe9'\n")
    (jobs / "marked.py").write_bytes(b"\xef\xbb\xbf" + PLAIN.encode())
    (jobs / "unicode.py").write_text("# -*- coding: latin-1 -*-\ndef run(ctx, x: str = 'é'): ...\n", encoding="utf-8")

    app = _make(jobs)

    assert [str(each) for each in app.problems] == ["latin.py:2: This line is not UTF-8."]
    assert [each.key for each in app.definitions.declared] == ["marked", "unicode"]


def test_a_file_that_is_too_large_is_a_problem(jobs: Path) -> None:
    _write(jobs, "large.py", "# " + "x" * 1_000_000)

    assert "larger than the 1000000 bytes" in _make(jobs).problems[0].error


def test_two_files_with_one_name_are_a_problem_of_both(jobs: Path) -> None:
    for path in ("reports/daily.py", "reports.daily.py", "other.py"):
        _write(jobs, path)

    app = _make(jobs)

    text = "are both called 'reports.daily': rename one of them."
    assert sorted(each.file for each in app.problems) == ["reports.daily.py", "reports/daily.py"]
    assert all(text in each.error for each in app.problems)
    assert [each.key for each in app.definitions.declared] == ["other"]
    assert app.unread == ["reports.daily"]


def test_a_path_that_makes_no_name_is_a_problem(jobs: Path) -> None:
    for path in ("my job.py", "café.py", "-x.py", "a..b.py"):
        _write(jobs, path)

    app = _make(jobs)

    assert len(app.problems) == 4
    assert all("Its path cannot be a name" in each.error for each in app.problems)
    assert app.definitions.declared == []


def test_a_path_that_is_not_utf_8_can_be_shown(jobs: Path) -> None:
    (jobs / os.fsdecode(b"caf\xe9.py")).write_text(PLAIN)

    (problem,) = _make(jobs).problems

    assert problem.file.encode() == b"caf\\udce9.py"


def test_an_error_whose_message_cannot_be_read_or_kept_is_still_a_problem(jobs: Path) -> None:
    odd = "class Odd(Exception):\n    def __str__(self):\n        return 1 / 0\n\nraise Odd\n"
    _write(jobs, "a.py", odd)
    _write(jobs, "b.py", "raise ValueError('x' * 10_000 + chr(0xD800))\n")

    first, second = _make(jobs).problems

    assert str(first) == "a.py:5: Odd: its message cannot be read"
    assert len(second.error.encode()) < 3000


def test_a_folder_that_cannot_be_listed_is_a_problem_and_not_empty(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(jobs, "closed/a.py")
    _write(jobs, "b.py")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    app = _make(jobs)

    assert [str(each) for each in app.problems] == ["closed: The folder cannot be read: Permission denied."]
    assert ([each.key for each in app.definitions.declared], app.unread) == (["b"], ["closed.*"])


def test_a_file_where_the_folder_should_be_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("")

    app = _make(tmp_path / "jobs")

    assert [str(each) for each in app.problems] == [".: The folder cannot be read: Not a directory."]
    assert app.unread == ["*"]


# --- what was good before


def test_the_last_good_text_stands_in_for_a_broken_file(jobs: Path) -> None:
    _write(jobs, "a.py", f'schedule = "@daily"\npriority = 3\n{PLAIN}')
    good = _make(jobs)
    _write(jobs, "a.py", "def run(:\n")

    app = _make(jobs, good=good.sources)

    (problem,) = app.problems
    assert str(problem) == "a.py:1: SyntaxError: invalid syntax. Its last good version runs."
    assert ([each.definition.priority for each in app.definitions.declared], app.unread) == ([3], [])
    assert app.schedules.declared == good.schedules.declared
    assert app.sources == good.sources

    _write(jobs, "a.py", f"priority = 4\n{PLAIN}")
    repaired = _make(jobs, good=app.sources)
    assert ([each.definition.priority for each in repaired.definitions.declared], repaired.problems) == ([4], [])
    assert repaired.schedules.declared == []


@pytest.mark.parametrize("text", [f'schedule = "never"\n{PLAIN}', f"priority = 99\n{PLAIN}", "1 / 0\n", "x = 1\n"])
def test_it_stands_in_whatever_is_wrong(jobs: Path, text: str) -> None:
    _write(jobs, "a.py", PLAIN)
    good = _make(jobs).sources
    _write(jobs, "a.py", text)

    app = _make(jobs, good=good)

    assert ([each.key for each in app.definitions.declared], [each.kept for each in app.problems]) == (["a"], [True])


def test_a_good_text_that_is_good_no_more_does_not_stand_in(jobs: Path) -> None:
    _write(jobs, "a.py", "def run(:\n")

    app = _make(jobs, good={"a.py": "import sys\nsys.exit(1)\n", "gone.py": PLAIN})

    assert (app.definitions.declared, [each.kept for each in app.problems], app.unread) == ([], [False], ["a"])


def test_of_two_with_one_name_the_one_that_was_there_first_runs_on(jobs: Path) -> None:
    _write(jobs, "reports/daily.py")
    good = _make(jobs).sources
    _write(jobs, "reports.daily.py")

    app = _make(jobs, good=good)

    assert app.paths == {"reports.daily": "reports/daily.py"}
    assert [each.kept for each in app.problems] == [True, True]


def test_a_file_that_was_removed_is_gone(jobs: Path) -> None:
    _write(jobs, "a.py", f'schedule = "@daily"\n{PLAIN}')
    good = _make(jobs).sources
    (jobs / "a.py").unlink()

    app = _make(jobs, good=good)

    assert (app.definitions.declared, app.schedules.declared, app.problems, app.unread) == ([], [], [], [])


def test_a_worker_is_told_all_of_it_as_data(jobs: Path) -> None:
    _write(jobs, "a.py")
    _write(jobs, "b.py", "1 / 0\n")

    extras = _make(jobs).extras

    assert extras == {
        "problems": [{"file": "b.py", "line": 1, "error": "ZeroDivisionError: division by zero", "kept": False}],
        "sources": {"a.py": PLAIN},
        "paths": {"a": "a.py"},
        "unread": ["b"],
        "folder": str(jobs),
    }


# --- resources


def test_resources_are_made_by_what_the_configuration_names(jobs: Path, tmp_path: Path) -> None:
    text = """
        import contextlib
        said = []

        def plain():
            return "plain"

        def generated():
            said.append("opened")
            yield "generated"
            said.append("closed")

        @contextlib.contextmanager
        def managed():
            yield "managed"
            said.append("left")

        class Maker:
            @staticmethod
            def make():
                return "made"
        """
    (tmp_path / "shared_things.py").write_text(textwrap.dedent(text))
    places = {"a": "plain", "b": "generated", "c": "managed", "d": "Maker.make"}

    app = _make(jobs, resources={name: f"shared_things:{place}" for name, place in places.items()})
    opened = Resources(app.resources)
    found = [opened[name] for name in places]
    opened.close()

    assert app.problems == []
    assert found == ["plain", "generated", "managed", "made"]
    assert sys.modules["shared_things"].said == ["opened", "left", "closed"]


@pytest.mark.parametrize(
    ("name", "place", "error"),
    [
        ("db", "nowhere.db:connect", "Resource 'db': nowhere.db:connect cannot be loaded: ModuleNotFoundError"),
        ("db", "shared_more:connect", "Resource 'db': shared_more:connect cannot be loaded: AttributeError"),
        ("db", "shared_more:number", "Resource 'db': shared_more:number is not a plain function"),
        ("db", "shared_more:later", "Resource 'db': shared_more:later is not a plain function"),
        ("db", "shared_more", "Resource 'db': 'shared_more' must be written as module:function"),
        ("no name", "shared_more:fine", "'no name' cannot be the name of a resource"),
    ],
)
def test_a_resource_that_cannot_be_made_is_a_problem_and_the_files_load(
    jobs: Path, tmp_path: Path, name: str, place: str, error: str
) -> None:
    (tmp_path / "shared_more.py").write_text("number = 1\nasync def later(): ...\ndef fine(): ...\n")
    _write(jobs, "a.py")

    app = _make(jobs, resources={name: place})

    (problem,) = app.problems
    assert problem.file == "penstock.toml"
    assert error in problem.error
    assert [each.key for each in app.definitions.declared] == ["a"]


def _write(folder: Path, path: str, text: str = PLAIN) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text), encoding="utf-8")


def _make(folder: Path, **options: Any) -> FilesApp:
    return discovery.make(str(folder), "sqlite://", **options)
