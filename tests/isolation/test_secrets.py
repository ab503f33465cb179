"""A canary as a secret parameter, sung in every way there is: only the parameters of the job may hold it."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from penstock import JobHandle
from penstock.storage.commands import admin
from tests.storage.tables import dump, query
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-secrets")

CANARY = "Kanari/42 +ü% sings 'aloud'"
FORMS = [
    CANARY, repr(CANARY)[1:-1], json.dumps(CANARY)[1:-1], quote(CANARY), quote(CANARY, safe=""), quote_plus(CANARY),
    base64.b64encode(CANARY.encode()).decode(), "sings 'aloud'", "sings \\'aloud", "Kanari/42",
]  # fmt: skip

SINGER = """
    import array, base64, fcntl, json, logging, os, sys, termios, time
    from urllib.parse import quote, quote_plus
    from penstock import Fail, NeedsReview, Penstock

    app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])
    QUICK = {"secret": ["token"], "backoff": 0, "max_attempts": 1}

    def told(ctx, *error):
        print("hook", ctx.params["token"])
        ctx.logger.warning("hook logs %s", ctx.params["token"])
        raise ValueError("hook raises " + ctx.params["token"])

    def piecewise(text):
        # The worker has read one piece before the next one comes.
        left = array.array("i", [0])
        for at in range(0, len(data := text.encode()), 5):
            os.write(1, data[at : at + 5])
            while not fcntl.ioctl(1, termios.FIONREAD, left) and left[0]:
                time.sleep(0.001)

    def say_all(ctx, token):
        ctx.logger.info("logged %s", token)
        ctx.logger.info("logged %r", {"as": token})
        logging.getLogger("other").error("other %s", json.dumps([token, quote(token, safe=""), quote_plus(token)]))
        try:
            raise KeyError(token)
        except KeyError:
            ctx.logger.exception("caught")
        ctx.progress(50, "at " + "x" * 500 + token, stage="stage " + token)
        ctx.emit_event("sung", {"song": token, "more": ["with " + base64.b64encode(token.encode()).decode()], token: 1})

    @app.job("sing", on_fail=told, **QUICK)
    def sing(ctx, token: str, how: str):
        say_all(ctx, token)
        print("printed", token)
        print("complained", token, file=sys.stderr)
        piecewise("slowly " + token + " to the end\\n")
        match how:
            case "raise":
                try:
                    raise LookupError("because of " + token)
                except LookupError as error:
                    raise ValueError("raised " + token + "y" * 20_000 + token) from error
            case "fail":
                raise Fail("fails with " + token)
            case "exit":
                sys.exit("leaves with " + token)
            case "review":
                raise NeedsReview("look at " + token, {"what": "about " + token})
            case "odd":
                class Odd:
                    def __iter__(self):
                        raise ValueError("odd " + token)
                return {"a": Odd()}
            case "type":
                raise type(token, (ValueError,), {})("named so")
            case "return":
                return {"token": token}

    def first(ctx, token: str):
        return {"kept": token, "other": 5}

    def second(ctx, token: str):
        print("results", json.dumps(ctx.results))
        if ctx.attempt == 1:
            raise ValueError("not yet " + token)
        return ctx.results["first"]

    app.pipeline("in_phases", first, second, secret=["token"], backoff=0, max_attempts=2)

    @app.job("hum", isolation="inline", **QUICK)
    async def hum(ctx, token: str, how: str):
        say_all(ctx, token)
        if how == "raise":
            raise ValueError("raised " + token)
        return token
"""


def sung(stage: Stage) -> list[tuple[str, str]]:
    """The cells of all tables that hold the canary in some form, except the parameters of jobs."""
    store = stage.app.store
    return [
        (table, cell)
        for table in dump(store)
        for row in query(store, f'SELECT * FROM {{s}}"{table}"')
        for cell in row
        if isinstance(cell, str) and any(form in cell for form in FORMS)
        if not (table == "job_detail" and json.loads(cell).get("token") == CANARY)
    ]


def sing(stage: Stage, key: str, **params: Any) -> JobHandle[Any]:
    job = stage.app.enqueue(key, {"token": CANARY, **params})
    stage.until(job, "succeeded", "failed", "review_needed")
    return job


def test_the_canary_is_nowhere_but_in_the_parameters(stage: Stage) -> None:
    worker = stage.project(SINGER)

    ways = ("raise", "fail", "exit", "review", "odd", "type", "return")
    jobs = {how: sing(stage, "sing", how=how) for how in ways}
    hummed = {how: sing(stage, "hum", how=how) for how in ("raise", "return")}
    in_phases = sing(stage, "in_phases")
    stage.eventually(lambda: worker.output.count("hook raises") >= 5, "the hooks have been called")
    worker.stop()

    assert sung(stage) == []
    assert [line for line in worker.output.splitlines() if any(form in line for form in FORMS)] == []
    # It did sing.
    assert all(CANARY in job.job.params_text for job in jobs.values())
    for job in jobs.values():
        said = {line.message for line in stage.logs(job)}
        assert {
            "logged ***",
            "logged {'as': \"***\"}",
            "printed ***",
            "complained ***",
            "slowly *** to the end",
        } <= said
        (caught,) = [line.details for line in stage.logs(job) if line.message == "caught"]
        assert str(caught["traceback"]).endswith('KeyError: "***"\n')
        (event,) = [event for event in stage.events(job) if event.type == "sung"]
        assert event.data == {"song": "***", "more": ["with ***"], "***": 1}
        assert (job.job.progress_message or "").endswith("***")
        assert job.job.current_phase == "stage ***"
    (attempt,) = stage.attempts(jobs["raise"])
    assert (attempt.error or "").startswith("raised ***yyy")
    assert "LookupError: because of ***" in (attempt.traceback or "")
    assert jobs["fail"].job.error == "fails with ***"
    assert "leaves with ***" in (jobs["exit"].job.error or "")
    assert jobs["type"].job.error_type == "project.***"
    (review,) = stage.app.store.run(admin.reviews(jobs["review"].id))
    assert (review.note, review.data) == ("look at ***", {"what": "about ***"})
    assert jobs["return"].job.result == {"token": "***"}
    assert (hummed["raise"].job.error, hummed["return"].job.result) == ("raised ***", "***")
    assert "hook logs ***" in worker.output
    assert "hook ***" in worker.output
    assert "logged ***" in worker.output, "an inline job logs where its worker does"
    assert in_phases.job.result == {"kept": "***", "other": 5}


def test_a_phase_is_given_the_same_result_before_and_after_a_retry(stage: Stage) -> None:
    stage.project(SINGER)

    job = sing(stage, "in_phases")

    seen = [line.message for line in stage.logs(job) if line.message.startswith("results")]
    assert seen == ['results {"first": {"kept": "***", "other": 5}}'] * 2


def test_long_words_show_no_secret_and_keep_their_place_among_short_ones(stage: Stage) -> None:
    stage.project(
        """
        import os
        from penstock import Penstock

        app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

        def talk(ctx, token):
            for n in range(6):
                filling = "x" * 40_000 if n % 2 == 0 else ""
                ctx.emit_event(f"word.{n}", {"said": [filling, f"with {token}"]})
                ctx.logger.info("line %d %s %s", n, token, filling)
            return {"long": "y" * 100_000, "token": token}

        @app.job("talk", secret=["token"])
        def process(ctx, token: str, filling: str):
            return talk(ctx, token)

        @app.job("inline", secret=["token"], isolation="inline")
        async def inline(ctx, token: str, filling: str):
            return talk(ctx, token)
        """
    )

    jobs = [sing(stage, key, filling="z" * 50_000) for key in ("talk", "inline")]

    assert sung(stage) == []
    for job in jobs:
        words = [event for event in stage.events(job) if event.type.startswith("word.")]
        assert [event.type for event in words] == [f"word.{n}" for n in range(6)]
        assert all(json.loads(event.data_text or "")["said"][1] == "with ***" for event in words)
        assert [line.message[:10] for line in stage.logs(job)] == [f"line {n} ***" for n in range(6)]
        assert json.loads(job.job.result_text or "")["token"] == "***"


def test_names_from_outside_cannot_forge_a_line_of_the_log(stage: Stage) -> None:
    worker = stage.project(
        """
        import os
        from penstock import Penstock

        app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

        def told(ctx):
            ctx.logger.info('x\\n12:00:00 CRITICAL forged \\x1b[31m \\u202e')
            raise ValueError("y\\r12:00:00 CRITICAL forged")

        @app.job("plain", on_end=told)
        def plain(ctx):
            pass
        """
    )

    stage.app.enqueue("plain")
    stage.eventually(lambda: "ValueError" in worker.output, "the hook has failed")

    assert "x\\n12:00:00 CRITICAL forged \\x1b[31m \\u202e" in worker.output
    assert "y\\r12:00:00 CRITICAL forged" in worker.output
    assert not any(line.startswith("12:00:00 CRITICAL") for line in worker.output.splitlines())
