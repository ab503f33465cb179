"""Dramatiq on Redis: its command line with one process of eight threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dramatiq
from dramatiq import cli
from dramatiq.brokers.redis import RedisBroker
from redis import Redis

from bench.programs import counting
from bench.programs.speaking import Job, in_threads

_client = Redis(unix_socket_path=counting.ADDRESS)
dramatiq.set_broker(RedisBroker(client=_client))


def nothing(text: str = "") -> None:
    counting.count()


def stamp(sent: int) -> None:
    counting.stamp(sent)


_actors: dict[str, Any] = {name: dramatiq.actor(nothing, actor_name=name) for name in counting.NOTHINGS}
_actors |= {name: dramatiq.actor(stamp, actor_name=name) for name in counting.STAMPS}


def prepare(fresh: bool) -> None:
    _client.ping()


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _actors[name].send(**params)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    """There is no call for many."""
    for batch in batches:
        single(batch)


def left() -> int:
    return int(_client.hlen("dramatiq:default.msgs"))


def work() -> None:
    arguments = [__name__, "--processes", "1", "--threads", "8", "--skip-logging"]
    cli.main(cli.make_argument_parser().parse_args(arguments))
