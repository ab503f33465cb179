"""Requests that are made up from the document: no fault of the server, and no answer that it does not tell of."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from penstock import Penstock
from tests.http.conftest import NewServer
from tests.http.document import document
from tests.http.streams import StreamServer, ended_job, enqueue
from tests.operations.hand import Hand

SLICES = 4
EXAMPLES = 300 if os.environ.get("PENSTOCK_SOAK") == "1" else 8
REFUSALS = ["400", "401", "404", "409", "410", "412", "422"]
"""No schema can tell which expressions, cursors, tokens and keys there are: what fits may be refused, but only so."""

CHECKS = {"positive_data_acceptance": {"expected-statuses": ["2xx", *REFUSALS]}}
SCHEMA = schemathesis.openapi.from_dict(document(), config=SchemathesisConfig.from_dict({"checks": CHECKS}))
OPERATIONS = [each.ok() for each in SCHEMA.get_all_operations() if isinstance(each, Ok)]


@dataclass
class Furnished:
    """A server with something of every kind in its store."""

    server: StreamServer
    token: str
    names: dict[str, list[str]]
    """Names of things that exist, by the parameter of a path that they are given as."""

    def those_for(self, path: str) -> Iterator[dict[str, str]]:
        """Path parameters that speak of something real, in turn."""
        wanted = {name: values for name, values in self.names.items() if f"{{{name}}}" in path}
        return itertools.cycle([dict(zip(wanted, each, strict=True)) for each in itertools.product(*wanted.values())])


@pytest.fixture
def furnished(app: Penstock, new_server: NewServer) -> Furnished:
    server = new_server(failed_tokens=1_000_000)
    app.schedules.save("nightly", "work", cron="0 3 * * *", params={"text": "x"})
    endpoint = app.webhooks.save("https://hooks.example.org/in").endpoint
    reviewed = enqueue(app)
    Hand(app).ask_review(reviewed)
    jobs = [enqueue(app, delay=3600), ended_job(app), reviewed]
    names = {"jobId": jobs, "key": ["work", "other", "nightly"], "webhookId": [endpoint.id]}
    return Furnished(server, app.tokens.create("fuzz", "super_admin").text, names)


# The strategies of schemathesis make use of `random` where Hypothesis sees it.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize("number", range(SLICES))
def test_made_up_requests_get_answers_that_the_document_tells(furnished: Furnished, number: int) -> None:
    for operation in OPERATIONS[number::SLICES]:
        _try(furnished, operation)


def _try(furnished: Furnished, operation: Any) -> None:
    real = furnished.those_for(operation.path)
    kinds = [operation.as_strategy(mode) for mode in GenerationMode]
    if "{" in operation.path:
        kinds.append(st.deferred(lambda: operation.as_strategy(GenerationMode.POSITIVE, path_parameters=next(real))))

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES < 100,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(case=st.one_of(kinds))
    def check(case: Any) -> None:
        headers = {"Authorization": f"Bearer {furnished.token}"}
        case.call_and_validate(furnished.server.url, headers=headers)

    check()
