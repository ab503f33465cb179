"""Server and worker on PostgreSQL as a role that the guide's own statements make: it cannot change the schema."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from penstock.domain.errors import StoreError, hint_for
from penstock.storage.postgres.store import PostgresStore
from tests.http.servers import serve
from tests.services import PostgresServer
from tests.waiting import wait_until
from tests.worker.fleet import ROOT, Stage

pytestmark = pytest.mark.xdist_group("restricted-role")

GUIDE = (ROOT / "docs" / "guide" / "migrations.md").read_text()


class Roles(NamedTuple):
    """URLs of one database for its administrator and its two roles."""

    admin: str
    owner: str
    app: str


def statements(name: str) -> str:
    """A block of SQL in the guide, by its first line."""
    found = re.search(rf"```sql\n-- {name}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def roles(postgres: PostgresServer) -> Roles:
    """A migrated database whose roles were made as the guide says."""
    admin = postgres.create_database()
    database, mark = admin.rpartition("/")[2], uuid.uuid4().hex[:8]

    def own(text: str) -> str:
        named = text.replace("DATABASE shop", f"DATABASE {database}")
        return named.replace("penstock_owner", f"owner_{mark}").replace("penstock_app", f"app_{mark}")

    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(own(statements("roles")).encode())
    made = Roles(admin, admin.replace("postgres@", f"owner_{mark}@"), admin.replace("postgres@", f"app_{mark}@"))
    store = PostgresStore(made.owner)
    assert store.migrate() == [1]
    store.close()
    with psycopg.connect(made.owner, autocommit=True) as connection:
        connection.execute(own(statements("grants")).encode())
    return made


def test_a_server_and_a_worker_do_all_their_work_without_any_right_to_the_schema(roles: Roles, tmp_path: Path) -> None:
    stage = Stage(roles.app, "penstock", tmp_path)
    try:
        server = serve(stage)
        worker = stage.worker()
        good = server.start_job(script=[["log", "info", "said"], ["progress", 3], ["event", "sung", {}], ["return", 1]])
        bad = server.start_job(
            script=[["raise", "no good"]], idempotencyKey="k", tags=["t"], reference={"type": "a", "id": "1"}
        )
        later = server.start_job(script=[["return", 1]], delay=3600, unique="u")
        keyed = server.post("/v1/jobs", {"definitionKey": "keyed", "params": {"key": "k", "script": [["return", 2]]}})[
            "jobId"
        ]
        hooked = server.start_job("hooked", [["enqueue", 2], ["return", 1]])

        assert server.until(good, "succeeded")["result"] == 1
        assert server.until(bad, "failed")["error"]["message"] == "no good"
        assert server.until(keyed, "succeeded")["result"] == 2
        server.until(hooked, "succeeded")
        server.post(f"/v1/jobs/{later}/cancel")
        server.post(f"/v1/jobs/{bad}/retry")
        server.until(bad, "failed")
        server.put("/v1/schedules/often", {"definitionKey": "noop", "kind": "interval", "expression": "1s"})
        wait_until(lambda: server.get("/v1/jobs?scheduleId=often")["jobs"], "the schedule has ticked")
        server.post("/v1/webhooks", {"url": "https://receiver.example/"})
        server.post("/v1/definitions/script/pause", {"reason": "a test"})
        server.post("/v1/jobs/trigger")
        server.get("/v1/events")
        server.get("/v1/alerts")
        token = server.post("/v1/tokens", {"name": "ann", "role": "admin"})["token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert server.request("GET", "/v1/stats", headers=headers).status_code == 200
        assert server.request("DELETE", f"/v1/jobs/{later}", headers=headers).status_code == 204
        worker.stop()
        server.stop()

        said = worker.output + server.output
        assert "permission denied" not in said
        assert "Traceback" not in said
    finally:
        stage.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE penstock.mine (a int)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION penstock.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DROP TABLE penstock.job CASCADE",
        "TRUNCATE penstock.audit",
        "ALTER TABLE penstock.job ADD COLUMN mine int",
        "CREATE INDEX ON penstock.job (id)",
        "DELETE FROM penstock.migration",
        "UPDATE penstock.migration SET checksum = 'mine'",
    ],
)
def test_the_role_of_the_guide_cannot_change_the_schema(roles: Roles, statement: str) -> None:
    with psycopg.connect(roles.app) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_a_role_without_a_right_is_told_who_migrates_and_where_the_grants_are(roles: Roles) -> None:
    with psycopg.connect(roles.owner, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA without_grants")

    for name, missing in (("not_there", "permission denied for database"), ("without_grants", "for schema")):
        store = PostgresStore(roles.app, schema=name)
        with pytest.raises(StoreError, match=missing) as caught:
            store.migrate()
        store.close()
        assert "penstock db migrate` as the schema's owner" in str(hint_for("cli", caught.value.hint))
        assert "the grants of docs/guide/migrations.md" in str(caught.value.hint)


def test_the_owner_of_a_schema_migrates_it_without_any_right_to_the_database(roles: Roles) -> None:
    name = roles.app.partition("//")[2].partition("@")[0]
    with psycopg.connect(roles.admin, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA owned AUTHORIZATION {name}".encode())

    store = PostgresStore(roles.app, schema="owned")

    assert (store.migrate(), store.migrate()) == ([1], [])
    store.close()


def test_tables_of_later_migrations_are_granted_too(roles: Roles) -> None:
    with psycopg.connect(roles.owner, autocommit=True) as connection:
        connection.execute(b"CREATE TABLE penstock.later (a int)")

    with psycopg.connect(roles.app, autocommit=True) as connection:
        connection.execute(b"INSERT INTO penstock.later VALUES (1)")
        assert connection.execute(b"SELECT a FROM penstock.later").fetchall() == [(1,)]
