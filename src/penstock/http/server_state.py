"""What one server has beside its routes, shared by all requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from penstock.app import Penstock
from penstock.config.server_settings import WebSettings
from penstock.http.authentication import Doorkeeper
from penstock.http.bodies import Bodies
from penstock.http.create_batching import Intake
from penstock.http.job_output import Shaper
from penstock.http.readiness import Readiness
from penstock.http.streaming.event_pages import EventPages
from penstock.http.streaming.hub import Hub


class DispatchPass(Protocol):
    """What one dispatch cycle did."""

    @property
    def processed(self) -> int: ...

    @property
    def errors(self) -> int: ...


Trigger = Callable[[], Awaitable[DispatchPass]]


class Site:
    """The application that a server speaks for, with everything its routes need."""

    def __init__(
        self,
        app: Penstock,
        settings: WebSettings,
        trigger: Trigger | None,
        trusted: str | None = None,
        setup_code: str | None = None,
    ) -> None:
        self.app = app
        self.trusted = trusted
        """Who makes all requests, where they come from this very process; such a caller may do everything."""
        self.settings = settings
        self.trigger = trigger
        self.door: Doorkeeper = Doorkeeper(app, settings, setup_code)
        self.bodies: Bodies = Bodies(settings)
        self.intake: Intake = Intake(app, settings)
        self.readiness: Readiness = Readiness(app)
        self.shaper: Shaper = Shaper(app, settings.secrets)
        self.streams: Hub = Hub(app, EventPages(app, self.shaper), settings)
