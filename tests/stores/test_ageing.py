"""claim in a store where waiting is worth something against priority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.instant import SECOND
from penstock.stores.verbs import jobs
from tests.stores.conftest import STORES, open_store
from tests.stores.kit import Kit


@pytest.fixture(params=STORES)
def ageing_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """A store in which a minute of waiting is worth one step of priority."""
    for store in open_store(request.param, request, tmp_path, ageing=60 * SECOND):
        yield Kit(store)


@pytest.mark.parametrize(("waited", "first"), [(119, "urgent"), (121, "old")])
def test_waiting_outweighs_priority_after_the_ageing_interval(ageing_kit: Kit, waited: int, first: str) -> None:
    kit = ageing_kit
    made = {"old": kit.create(priority=8)}
    kit.advance(waited)
    made["urgent"] = kit.create(priority=10)

    assert [each.job_id for each in kit.claim(limit=1)] == [made[first]]


def test_a_job_that_was_scheduled_ages_from_the_instant_it_was_due(ageing_kit: Kit) -> None:
    kit = ageing_kit
    scheduled = kit.create(priority=8, delay=60 * SECOND)
    kit.advance(60 + 121)
    kit.create(priority=10)
    kit.run(jobs.promote())

    assert [each.job_id for each in kit.claim(limit=1)] == [scheduled]
