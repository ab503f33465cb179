"""A server on each kind of store that servers can share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from tests.http.asgi_api import WebApi
from tests.http.streams import StreamServer, define
from tests.services import PostgresServer
from tests.storage import schemas

KINDS = ("sqlite-file", "postgres-18")

NewSite = Callable[..., WebApi]
"""Makes one more server on the same store; the arguments are those of WebSettings."""
NewServer = Callable[..., StreamServer]
"""Makes one more server with a port on the same store; the arguments are those of StreamServer."""


@pytest.fixture(scope="session")
def postgres_18_database(postgres_18: PostgresServer) -> str:
    """One database for all tests; each has a schema to itself while it runs."""
    return str(postgres_18.create_database())


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Penstock]:
    """An application on an empty store of each kind."""
    if request.param == "sqlite-file":
        made = Penstock(f"sqlite:///{tmp_path}/jobs.db")
        yield made
        made.close()
        return
    schema = schemas.lend(request.getfixturevalue("postgres_18_database"))
    made = Penstock(schema.url, schema=schema.name)
    yield made
    made.close()
    schemas.give_back(schema)


@pytest.fixture
def portal() -> Iterator[Any]:
    """The event loop that the servers of a test share."""
    with anyio.from_thread.start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def new_site(app: Penstock, portal: Any) -> Iterator[NewSite]:
    """A way to make servers on one application."""

    def new(trigger: Any = None, **settings: Any) -> WebApi:
        return WebApi(app, portal, WebSettings(**settings), trigger=trigger)

    yield new
    # Connections of the loop are closed there, before it ends.
    portal.call(app.aclose)


@pytest.fixture
def site(new_site: NewSite) -> WebApi:
    """A server with its settings left alone, and no token."""
    return new_site()


@pytest.fixture
def new_server(app: Penstock) -> Iterator[NewServer]:
    """A way to make servers with ports, each with an application of its own, as other processes would have."""
    servers: list[StreamServer] = []

    def new(**options: Any) -> StreamServer:
        assert app.address is not None
        servers.append(StreamServer(Penstock(**app.address), **options))
        return servers[-1]

    define(app)
    yield new
    for each in servers:
        each.stop()


@pytest.fixture
def server(new_server: NewServer) -> StreamServer:
    """A server with a port, its settings left alone."""
    return new_server()
