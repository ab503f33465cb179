"""Secrets that no parameter of a job holds: variables of the environment, and defaults of the function's parameters."""

from __future__ import annotations

import json

import pytest

from tests.storage.tables import dump, query
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-secrets")

VARIABLES = {
    "SINGER_API_TOKEN": "tok-9f2c61ab",
    "SINGER_DSN": "dsn-77e0b4d1",
    "SINGER_URL": "postgresql://singer:url%2Dpassword@db/songs",
}
SECRETS = (
    "tok-9f2c61ab", "dsn-77e0b4d1", "url%2Dpassword", "url-password", "hunter22-own",
    "member-58aa90", "secretly-ada", "pin-6612-8890",
)  # fmt: skip
SINGER = """
    import os
    from pydantic import BaseModel
    from penstock import Penstock

    app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

    class Account(BaseModel):
        name: str = "ada"
        password: str = "member-58aa90"

    class Login(BaseModel):
        user: str = "secretly-ada"

    def told(ctx, *error):
        print("hook", os.environ["SINGER_API_TOKEN"], os.environ["SINGER_DSN"])

    @app.job("sing", environment=["SINGER_API_TOKEN", "SINGER_URL"],
         secret_environment=["SINGER_DSN"], secret=["login", "pin"],
             on_end=told, max_attempts=1)
    def sing(
        ctx, how: str, password: str = "hunter22-own", account: Account = Account(), login: Login = Login(),
        pin: str = "pin-6612-8890",
    ):
        url = os.environ["SINGER_URL"]
        said = [os.environ["SINGER_API_TOKEN"], os.environ["SINGER_DSN"], url, url.replace("%2D", "-"), password,
                account.password, login.user, pin]
        ctx.logger.info("logged %s", said)
        print("printed", said)
        ctx.progress(50, "progress " + said[0])
        ctx.emit_event("sung", {"said": said})
        if how == "raise":
            raise ValueError("raised " + repr(said))
        return {"said": said[:2] + said[4:], "name": account.name}
"""


def test_declared_secrets_are_nowhere_but_in_the_definition(stage: Stage) -> None:
    stage.environment |= VARIABLES
    worker = stage.project(SINGER)

    jobs = {how: stage.app.enqueue("sing", {"how": how}) for how in ("raise", "return")}
    for job in jobs.values():
        stage.until(job, "succeeded", "failed")
    stage.eventually(lambda: worker.output.count("hook ***") == 2, "the hooks have been called")

    store = stage.app.store
    cells = [
        (table, cell)
        for table in dump(store)
        if table != "definition"
        for row in query(store, f'SELECT * FROM {{s}}"{table}"')
        for cell in row
        if isinstance(cell, str) and any(secret in cell for secret in SECRETS)
    ]
    assert cells == []
    assert not any(secret in worker.output for secret in SECRETS)
    assert (jobs["raise"].refresh().error or "").startswith("raised ['***', '***', 'postgresql://singer:***@db/songs'")
    said = json.loads(jobs["return"].refresh().result_text or "")
    assert said["name"] == "ada"
    assert said["said"] == ["***"] * 6


def test_variables_of_the_worker_are_secret_by_their_name(quiet_stage: Stage) -> None:
    quiet_stage.environment |= VARIABLES
    quiet_stage.project(
        """
        import os
        from penstock import Penstock

        app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

        @app.job("sing", max_attempts=1)
        def sing(ctx):
            raise ValueError(os.environ["SINGER_API_TOKEN"] + " " + os.environ["SINGER_DSN"])
        """,
        "--environment", "SINGER_API_TOKEN", "--environment", "SINGER_DSN",
    )  # fmt: skip

    job = quiet_stage.app.enqueue("sing")

    assert quiet_stage.end(job).error == "*** dsn-77e0b4d1"
