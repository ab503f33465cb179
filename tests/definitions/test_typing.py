"""What a type checker says: `enqueue` takes what the function takes, `result()` gives what it returns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# "wrong" marks the lines that must be reported, "is" tells the type that must be revealed.
SAMPLE = """
from datetime import datetime
from penstock import Context, DefinitionHandle, Penstock

app = Penstock("sqlite://")

@app.job
def plain(to: str, copies: int = 1) -> str:
    return to

@app.job("coloured", priority=3)
async def coloured(to: str) -> int:
    return 1

@app.job("with.context")
def with_context(ctx: Context, to: str) -> list[int]:
    return []

@app.job
async def with_both(ctx: Context, *, to: str) -> float:
    return 1.0

@app.job
def loose(ctx, to: str):
    return to

@app.job
def first(one, two: int) -> float:
    return 1.0

async def calls(ctx: Context) -> None:
    reveal_type(plain("a"))  # is str
    reveal_type(await coloured("a"))  # is int
    reveal_type(with_context(ctx, "a"))  # is list[int]
    reveal_type(plain.enqueue("a", copies=2).result())  # is str
    reveal_type(plain.enqueue(to="a").result(timeout=5))  # is str
    reveal_type(coloured.enqueue(to="a").result())  # is int
    reveal_type(with_context.enqueue("a").result())  # is list[int]
    reveal_type(with_both.enqueue(to="a").result())  # is float
    reveal_type(await (await plain.aenqueue("a")).aresult())  # is str
    reveal_type(await (await coloured.aenqueue("a")).aresult())  # is int
    reveal_type(await (await with_context.aenqueue(to="a")).aresult())  # is list[int]
    reveal_type(plain.options(delay=5).enqueue("a").result())  # is str
    reveal_type(with_context.options(delay=5).enqueue("a").result())  # is list[int]

def right() -> None:
    loose.enqueue(to="a")
    first.enqueue(1, 2)
    first.enqueue(one=1, two=2)
    app.enqueue_many([plain.order("a"), with_context.order("b"), coloured.options(unique=True).order("c")])
    kept: DefinitionHandle[[str], list[int]] = with_context

def wrong(ctx: Context) -> None:
    plain.enqueue(5)  # wrong
    plain.enqueue("a", copys=2)  # wrong
    plain.enqueue()  # wrong
    plain.enqueue("a", 1, 2)  # wrong
    plain.order(5)  # wrong
    plain.options(priority=3).enqueue(5)  # wrong
    plain.options(delai=3)  # wrong
    coloured.enqueue(to=5)  # wrong
    with_context.enqueue(5)  # wrong
    with_context.enqueue(ctx, "a")  # wrong
    with_context("a")  # wrong
    with_both.enqueue("a")  # wrong
    app.job("x", priorty=5)  # wrong
    number: int = plain.enqueue("a").result()  # wrong
    text: str = coloured.enqueue("a").result()  # wrong

async def wrong_too() -> None:
    await plain.aenqueue(5)  # wrong
    await coloured.aenqueue(tu="a")  # wrong
    number: int = await (await plain.aenqueue("a")).aresult()  # wrong
"""


def test_a_type_checker_reports_wrong_calls_and_no_right_ones(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(SAMPLE)
    config: list[str | Path] = [
        "--config-file",
        ROOT / "pyproject.toml",
        "--allow-untyped-defs",
        "--allow-incomplete-defs",
    ]
    command = [sys.executable, "-m", "mypy", *config, sample]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    lines = dict(enumerate(SAMPLE.splitlines(), 1))
    reported = {int(number) for number in re.findall(r"sample\.py:(\d+): error", done.stdout)}
    notes = re.findall(r'sample\.py:(\d+): note: Revealed type is "(.*)"', done.stdout)
    assert {lines[number] for number in reported} == {text for text in lines.values() if text.endswith("# wrong")}, (
        done.stdout + done.stderr
    )
    assert {int(number): kind for number, kind in notes} == {
        number: text.partition("# is ")[2] for number, text in lines.items() if "# is " in text
    }
