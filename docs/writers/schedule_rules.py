"""The table of what cron does where clocks jump, made by asking the code."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from penstock.domain.instant import from_datetime, to_datetime
from penstock.domain.schedule.cron import parse

BLOCK = "clock-jumps"
"""The name of its place in docs/guide/schedules.md."""
CASES = [
    ("Paris skips 02:00 to 03:00", "Europe/Paris", "2026-03-29T00:00", "2026-03-29T05:30", [
        ("30 2 * * *", "a skipped fixed time: at the first instant after the jump"),
        ("0,30 2 * * *", "two skipped times: once"),
        ("0 2,3 * * *", "a skipped time and one right after the jump: once"),
        ("30 */2 * * *", "the hour has a star: skipped times do not fire"),
        ("*/30 1-4 * * *", "the minute has a star: skipped times do not fire"),
    ]),
    ("Paris shows 02:00 to 03:00 twice", "Europe/Paris", "2026-10-25T00:00", "2026-10-25T04:10", [
        ("30 2 * * *", "a fixed time: the first time it is shown"),
        ("0 0-23 * * *", "ranges are fixed times as well"),
        ("0 * * * *", "the hour has a star: each time it is shown"),
        ("*/30 2 * * *", "the minute has a star: each time it is shown"),
    ]),
    ("Cairo skips 00:00 to 01:00", "Africa/Cairo", "2026-04-23T23:00", "2026-04-24T02:10", [
        ("0 0 * * *", "midnight is skipped: at 01:00"),
        ("@hourly", "every hour, in real time"),
    ]),
    ("Lord Howe shows 01:30 to 02:00 twice", "Australia/Lord_Howe", "2026-04-05T01:00", "2026-04-05T02:40", [
        ("45 1 * * *", "half an hour: the same rule"),
        ("*/15 1 * * *", "the minute has a star: each time it is shown"),
    ]),
    ("Apia has no 30 December 2011", "Pacific/Apia", "2011-12-29T11:00", "2011-12-31T13:00", [
        ("0 12 * * *", "a whole day is skipped: at the first instant after the jump"),
    ]),
]  # fmt: skip


def write() -> str:
    """The table in Markdown."""
    lines = ["| where | expression | fires at (local time, offset from UTC) | rule |", "| --- | --- | --- | --- |"]
    for where, name, first, last, expressions in CASES:
        for text, rule in expressions:
            fires = ", ".join(_fires(text, ZoneInfo(name), first, last))
            lines.append(f"| {where} | `{text}` | {fires} | {rule} |")
    return "\n".join(lines)


def _fires(text: str, zone: ZoneInfo, first: str, last: str) -> list[str]:
    cron = parse(text)
    until = from_datetime(datetime.fromisoformat(last).replace(tzinfo=zone), last)
    instant = cron.next(from_datetime(datetime.fromisoformat(first).replace(tzinfo=zone), first) - 1, zone)
    found: list[str] = []
    day = first[:10]
    while instant is not None and instant <= until:
        moment = to_datetime(instant).astimezone(zone)
        date = "" if f"{moment:%Y-%m-%d}" == day else f"{moment.day} {moment:%B} "
        found.append(f"{date}{moment:%H:%M} ({moment.isoformat()[-6:]})")
        day = f"{moment:%Y-%m-%d}"
        instant = cron.next(instant, zone)
    return found
