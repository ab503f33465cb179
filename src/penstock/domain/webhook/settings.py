"""How webhooks are sent: every knob, with its default."""

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
    """What may be said about the sending of webhooks; times are in seconds. Give all processes of a store the same."""

    global_url: str | None = None
    """Gets the default event types of all jobs."""
    global_secret: str | None = field(default=None, repr=False)
    """Signs what goes to the global URL. URLs of single jobs have a secret for each origin, made from this one. Without
    it both get no signature."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that are not public and may be sent to all the same, such as 10.1.0.0/16."""
    refused_networks: tuple[str, ...] = ()
    """Public networks that nothing may be sent to, such as the addresses under which others reach this host."""
    allow_http: bool = False
    ports: tuple[int, ...] = DEFAULT_PORTS
    timeout: float = 15.0
    """Looking up, connecting, sending and answering must be over by then."""
    parallel: int = 16
    """Deliveries that one process sends at once."""
    per_receiver: int = 2
    """Deliveries that one receiver gets at once, from all processes together."""
    retries: tuple[float, ...] = DEFAULT_RETRIES
    """How long to wait after each try that failed; when there is none left, the delivery has failed."""
    breaker_failures: int = 5
    """After so many failures in a row a receiver is left alone for a while."""
    breaker_pause: float = 30.0
    """How long it is left alone at first; twice as long each time, ten minutes at most."""
    disable_after: float = 5 * 86_400.0
    """An endpoint at which nothing has arrived for so long is disabled, if ten tries or more failed; 0: never."""
    poll: float = 1.0
    """How long events wait at most until deliveries are made of them."""

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
        """The secret that signs what is sent to this URL of a job; None when there is no global secret."""
        return None if self.global_secret is None else origin_secret(self.global_secret, origin(url))

    def check(self, url: str) -> Target:
        """Read a URL; one that these settings do not allow is refused with the reason."""
        return check_url(url, allow_http=self.allow_http, ports=self.ports, allowed=self.networks)
