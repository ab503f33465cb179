"""Settings of webhook delivery, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from penstock.domain.errors import InvalidInput
from penstock.domain.webhook.signature import origin_secret, secret_key
from penstock.domain.webhook.url import DEFAULT_PORTS, Network, Target, check_url, networks, origin

DEFAULT_RETRIES = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 43_200.0, 72_000.0, 115_200.0)
"""Seconds between the tries of a delivery: ten tries in three days."""


@dataclass(frozen=True)
class WebhookSettings:
    """Settings of webhook delivery; times are in seconds. Use the same in all processes of a store."""

    global_url: str | None = None
    """Receives the default event types of all jobs."""
    global_secret: str | None = field(default=None, repr=False)
    """Signs deliveries to the global URL. Job URLs get a secret for each origin, derived from this one. Without it,
    neither gets a signature."""
    allowed_networks: tuple[str, ...] = ()
    """Private networks that are allowed as receivers, such as 10.1.0.0/16."""
    refused_networks: tuple[str, ...] = ()
    """Public networks that are refused as receivers, such as the public addresses of this host."""
    allow_http: bool = False
    ports: tuple[int, ...] = DEFAULT_PORTS
    timeout: float = 15.0
    """Limit for lookup, connection, request and answer together."""
    parallel: int = 16
    """Deliveries that one process sends concurrently."""
    per_receiver: int = 2
    """Concurrent deliveries to one receiver, from all processes together."""
    retries: tuple[float, ...] = DEFAULT_RETRIES
    """Delays after each failed try; after the last one the delivery fails."""
    breaker_failures: int = 5
    """Consecutive failures after which deliveries to a receiver pause."""
    breaker_pause: float = 30.0
    """Length of the first pause; it doubles each time, up to ten minutes."""
    disable_after: float = 5 * 86_400.0
    """An endpoint without a success for this time is disabled, after at least ten failed tries; 0: never."""
    poll: float = 1.0
    """Longest time until deliveries are created from a new event."""

    def __post_init__(self) -> None:
        for name in ("allowed_networks", "refused_networks", "ports", "retries"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("timeout", "breaker_pause", "poll"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} of webhooks must be more than 0 seconds, not {getattr(self, name)!r}.")
        for name in ("parallel", "per_receiver", "breaker_failures"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InvalidInput(f"{name} of webhooks must be an integer of at least 1.")
        if not self.disable_after >= 0:
            raise InvalidInput(f"disable_after of webhooks must be 0 seconds or more, not {self.disable_after!r}.")
        if not all(isinstance(each, int) and 0 < each < 65536 for each in self.ports):
            raise InvalidInput(f"ports of webhooks are numbers from 1 to 65535, not {self.ports!r:.80}.")
        if not all(0 <= each <= 30 * 86_400 for each in self.retries):
            raise InvalidInput("retries of webhooks are seconds between 0 and 30 days.")
        _ = self.networks, self.refused
        if self.global_secret is not None:
            secret_key(self.global_secret)
        if self.global_url is not None:
            self.check(self.global_url)

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        return networks(self.allowed_networks)

    @cached_property
    def refused(self) -> tuple[Network, ...]:
        return networks(self.refused_networks)

    def secret_for(self, url: str) -> str | None:
        """Return the secret for deliveries to a job's URL; None without a global secret."""
        return None if self.global_secret is None else origin_secret(self.global_secret, origin(url))

    def check(self, url: str) -> Target:
        """Parse a URL; raise with the reason when these settings do not allow it."""
        return check_url(url, allow_http=self.allow_http, ports=self.ports, allowed=self.networks)
