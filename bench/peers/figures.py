"""Medians of the rounds, tables with ratios, and how far we are from the aims."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.peers import installing, redis_server
from bench.peers.contenders import PENSTOCK, Contender

RATES = {
    "Creating": ("single {}", "single 1 kB", "32 callers {}", "bulk {}", "bulk 1 kB", "bulk 50 definitions"),
    "Draining": ("drain {}", "drain 2 workers", "drain 1 kB", "drain 50 definitions"),
}
IDLE = ("start-up", "memory", "pick-up p50", "pick-up p95", "pick-up p99")
_NONE = "–"

Figures = Mapping[str, Mapping[str, float]]


def summary(
    contenders: Sequence[Contender], found: Mapping[str, Mapping[str, list[float]]], rounds: int, scale: float
) -> dict[str, Any]:
    """What is kept in results.json."""
    cores = os.cpu_count()
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.python_implementation()} {platform.python_version()}, {cores} cores",
        "rounds": rounds,
        "scale": scale,
        "contenders": [
            {
                "key": each.key,
                "name": each.name,
                "store": each.store,
                "appendfsync": each.appendfsync,
                "version": None if each.package is None else installing.version(each.package),
                "configuration": each.configuration,
                "figures": {measure: round(value, 3) for measure, value in medians(found[each.label]).items()},
                "rounds": {
                    measure: [round(value, 3) for value in values]
                    for measure, values in found[each.label].items()
                    if measure != "pick-up"
                },
            }
            for each in contenders
        ],
    }


def medians(found: Mapping[str, list[float]]) -> dict[str, float]:
    """One value a measure; pick-ups of all rounds are one sample."""
    figures = {measure: statistics.median(values) for measure, values in found.items() if measure != "pick-up"}
    taken = sorted(found.get("pick-up", ()))
    for percent in (50, 95, 99) if taken else ():
        figures[f"pick-up p{percent}"] = taken[min(len(taken) - 1, len(taken) * percent // 100)]
    return figures


def text(contenders: Sequence[Contender], result: Mapping[str, Any]) -> str:
    """The Markdown of a run."""
    figures = {each.label: kept["figures"] for each, kept in zip(contenders, result["contenders"], strict=True)}
    servers = "PostgreSQL 18 (fsync and synchronous_commit on), SQLite in WAL mode with synchronous=FULL"
    if any(each.store == "Redis" for each in contenders):
        servers += f", Redis {redis_server.version()} (with its log)"
    lines = [
        f"{result['date']}, {result['machine']}; {servers}; medians, rounds: {result['rounds']}"
        + ("." if result["scale"] == 1 else f"; {result['scale']:g} of the usual amount of jobs."),
        "",
        "Jobs a second; in parentheses how many times as fast penstock is: on SQLite beside those on SQLite, else on "
        "PostgreSQL.",
    ]
    for title, measures in RATES.items():
        lines += ["", *_rates(title, measures, contenders, figures)]
    lines += ["", *_idle(contenders, figures), "", *_aims(figures), "", *_configurations(contenders, result)]
    return "\n".join(lines)


def _rates(title: str, measures: Sequence[str], contenders: Sequence[Contender], figures: Figures) -> list[str]:
    lines = [f"| {title} | " + " | ".join(f"{each}" for each in measures) + " |", "| --- |" + " ---: |" * len(measures)]
    for each in contenders:
        cells = [_rate(figures, each, measure) for measure in measures]
        if any(cell != _NONE for cell in cells):
            lines.append(f"| {each.label} | " + " | ".join(cells) + " |")
    return lines


def _rate(figures: Figures, contender: Contender, measure: str) -> str:
    value, ours = figures[contender.label].get(measure), figures[_rival(contender)].get(measure)
    if value is None:
        return _NONE
    if ours is None or contender.key == "penstock":
        return f"{value:,.0f}"
    return f"{value:,.0f} ({ours / value:,.2f} ×)"


def _rival(contender: Contender) -> str:
    """Which of ours a contender is compared with."""
    return f"{PENSTOCK.name} ({'SQLite' if contender.store == 'SQLite' else 'PostgreSQL'})"


def _idle(contenders: Sequence[Contender], figures: Figures) -> list[str]:
    lines = [
        "| A worker | start-up until its first job, s | idle memory (PSS), MB | pick-up p50, ms | p95, ms | p99, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in contenders:
        values = [figures[each.label].get(measure) for measure in IDLE]
        if values[0] is not None:
            forms = ("{:.2f}", "{:.0f}", "{:.1f}", "{:.1f}", "{:.1f}")
            cells = [form.format(value) for form, value in zip(forms, values, strict=True)]
            lines.append(f"| {each.label} | " + " | ".join(cells) + " |")
    return lines


def _configurations(contenders: Sequence[Contender], result: Mapping[str, Any]) -> list[str]:
    lines = ["| Configuration | version | |", "| --- | --- | --- |"]
    for each, kept in zip(contenders, result["contenders"], strict=True):
        if each.appendfsync != "always":
            lines.append(f"| {each.name} ({each.store}) | {kept['version'] or ''} | {each.configuration} |")
    return lines


POSTGRES, SQLITE = "penstock (PostgreSQL)", "penstock (SQLite)"

Aim = tuple[str, Callable[[Figures], float], float]
AIMS: tuple[Aim, ...] = (
    ("drain, one worker: penstock / the fastest peer on PostgreSQL", lambda f: _lead(f, "drain {}"), 1.5),
    (
        "drain, one worker: penstock / graphile-worker with a local queue of 500",
        lambda f: _beside(f, "drain {}", "graphile-worker (PostgreSQL)"),
        1.5,
    ),
    ("drain, one worker: penstock / pg-boss", lambda f: _beside(f, "drain {}", "pg-boss (PostgreSQL)"), 1.5),
    ("drain, one worker: penstock / PGQueuer", lambda f: _beside(f, "drain {}", "PGQueuer (PostgreSQL)"), 3),
    ("drain, one worker: penstock / Procrastinate", lambda f: _beside(f, "drain {}", "Procrastinate (PostgreSQL)"), 50),
    (
        "drain, two workers: penstock / graphile-worker",
        lambda f: _beside(f, "drain 2 workers", "graphile-worker (PostgreSQL)"),
        1.2,
    ),
    ("drain: penstock / raw on PostgreSQL", lambda f: _beside(f, "drain {}", "raw (PostgreSQL)"), 0.5),
    ("insert + drain: penstock / raw on SQLite", lambda f: _both(f, SQLITE) / _both(f, "raw (SQLite)"), 0.35),
    ("drain: penstock / Huey on SQLite", lambda f: f[SQLITE]["drain {}"] / f["Huey (SQLite)"]["drain {}"], 15),
    ("bulk: penstock / graphile-worker", lambda f: _beside(f, "bulk {}", "graphile-worker (PostgreSQL)"), 1.2),
    ("single: penstock / raw", lambda f: _beside(f, "single {}", "raw (PostgreSQL)"), 0.85),
    ("single: penstock / PGQueuer", lambda f: _beside(f, "single {}", "PGQueuer (PostgreSQL)"), 1.4),
    ("32 callers: penstock / raw", lambda f: _beside(f, "32 callers {}", "raw (PostgreSQL)"), 0.8),
    ("pick-up p50: the best peer on PostgreSQL / penstock", lambda f: _quicker(f, "pick-up p50"), 1),
    ("pick-up p99: the best peer on PostgreSQL / penstock", lambda f: _quicker(f, "pick-up p99"), 1),
    ("pick-up p50 on SQLite: 5 ms / penstock", lambda f: 5 / f[SQLITE]["pick-up p50"], 1),
)


def _aims(figures: Figures) -> list[str]:
    lines = ["| Aim | wanted | found | |", "| --- | ---: | ---: | --- |"]
    for name, ratio, wanted in AIMS:
        try:
            found = ratio(figures)
        except (KeyError, ValueError):  # without that peer
            continue
        lines.append(f"| {name} | {wanted:g} | {found:.2f} | {'met' if found >= wanted else 'missed'} |")
    return lines


def _beside(figures: Figures, measure: str, peer: str) -> float:
    return figures[POSTGRES][measure] / figures[peer][measure]


def _lead(figures: Figures, measure: str) -> float:
    return figures[POSTGRES][measure] / max(_peers(figures, measure))


def _quicker(figures: Figures, measure: str) -> float:
    return min(_peers(figures, measure)) / figures[POSTGRES][measure]


def _peers(figures: Figures, measure: str) -> list[float]:
    """What the peers on PostgreSQL did, those of them that were measured."""
    ours = ("penstock", "raw")
    return [
        kept[measure]
        for label, kept in figures.items()
        if label.endswith("(PostgreSQL)") and not label.startswith(ours) and measure in kept
    ]


def _both(figures: Figures, label: str) -> float:
    """Jobs a second that are first created in batches and then drained."""
    return 1 / (1 / figures[label]["bulk {}"] + 1 / figures[label]["drain {}"])
