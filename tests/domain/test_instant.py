"""Instants: what can be written can be read, in every zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import EARLIEST, LATEST, from_datetime, to_datetime


@pytest.mark.parametrize("instant", [EARLIEST, 0, LATEST])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_every_instant_in_range_has_a_date_in_every_zone(instant: int, zone: str) -> None:
    moment = to_datetime(instant).astimezone(ZoneInfo(zone))

    assert from_datetime(moment, "it") == instant


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-14))),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_what_could_be_written_but_not_read_is_refused(moment: datetime) -> None:
    with pytest.raises(InvalidInput, match="due is out of range"):
        from_datetime(moment, "due")
