"""penstock beside its peers, in one run on one machine: creating, draining, picking up, starting, resting."""

from __future__ import annotations

import sys
from typing import Any

from bench.peers import figures, installing, measuring
from bench.peers.contenders import KEYS, chosen


def run(peers: str | None, rounds: int, scale: float) -> tuple[dict[str, Any], str]:
    """The figures to keep, and the tables; `peers` are names with commas between them, by default all."""
    keys = KEYS if peers is None else tuple(filter(None, peers.split(",")))
    if unknown := set(keys) - set(KEYS):
        raise SystemExit(f"There is no peer {', '.join(sorted(unknown))}; there are {', '.join(KEYS)}.")
    contenders = chosen(keys)
    if any(each.program.endswith(".mjs") for each in contenders) and installing.node() is None:
        print(
            "There is no Node and none could be installed: graphile-worker and pg-boss are left out.", file=sys.stderr
        )
        contenders = [each for each in contenders if not each.program.endswith(".mjs")]
    found = measuring.run(contenders, rounds, scale)
    result = figures.summary(contenders, found, rounds, scale)
    return result, figures.text(contenders, result)
