"""How many wrong tokens are answered in a minute: of one network, and of all networks together."""

from __future__ import annotations

import time
from collections import OrderedDict

from penstock.http.addresses import network_of
from penstock.http.errors import Refusal

_PERIOD = 60.0
_MOST_NETWORKS = 10_000


class WrongTokens:
    """Counts them after a token was found wrong, so that no count refuses a valid one."""

    def __init__(self, most_of_one: int, most_of_all: int) -> None:
        self._most_of_one = most_of_one
        self._most_of_all = most_of_all
        self._of_one: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._of_all: tuple[int, float] = (0, -_PERIOD)

    def count(self, address: str) -> Refusal | None:
        """Count one wrong token more; above one of the limits, the refusal to answer it with."""
        now = time.monotonic()
        network = network_of(address)
        of_one, since_one = self._of_one[network] = _more(self._of_one.pop(network, (0, now)), now)
        of_all, since_all = self._of_all = _more(self._of_all, now)
        if len(self._of_one) > _MOST_NETWORKS:
            self._of_one.popitem(last=False)
        if of_one > self._most_of_one:
            return _refusal("Too many wrong tokens were shown from this address.", since_one + _PERIOD - now)
        if of_all > self._most_of_all:
            return _refusal("Too many wrong tokens were shown to this server.", since_all + _PERIOD - now)
        return None


def _more(counted: tuple[int, float], now: float) -> tuple[int, float]:
    count, since = counted
    return (count + 1, since) if now - since <= _PERIOD else (1, now)


def _refusal(message: str, seconds: float) -> Refusal:
    return Refusal(
        "rate_limited", message, hint="Wait, then use a valid one.", headers={"Retry-After": str(int(seconds) + 1)}
    )
