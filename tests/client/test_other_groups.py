"""All groups of `penstock.Client` but jobs, through a real server: the application reads what they change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Client, Conflict, NotFound, Penstock
from tests.applications import NewApp
from tests.client.calls import Calls
from tests.http.streams import StreamServer


@pytest.fixture
def app(new_app: NewApp) -> Penstock:
    made = new_app()

    @made.job("mail")
    def mail(to: str = "ada") -> None: ...

    made.definitions.register()
    return made


@pytest.fixture
def client(app: Penstock, new_app: NewApp) -> Iterator[Client]:
    token = app.tokens.create("operator", "super_admin").text
    server = StreamServer(new_app())
    with Client(server.url, token) as made:
        yield made
    server.stop()


@pytest.fixture(params=["plain", "async"])
def calls(request: pytest.FixtureRequest, client: Client) -> Calls:
    return Calls(client, request.param == "async")


def test_definitions_are_paused_disabled_and_overridden(calls: Calls, app: Penstock) -> None:
    calls.definitions.pause("mail", "maintenance")
    calls.definitions.disable("mail")
    calls.definitions.override("mail", concurrency=3)
    (row,) = app.definitions.list()
    assert (row.pause is not None, row.enabled, row.overrides["concurrency"]) == (True, False, 3)

    calls.definitions.resume("mail")
    calls.definitions.enable("mail")

    (row,) = calls.definitions.list()
    assert (row.definition.key, row.pause, row.enabled) == ("mail", None, True)


def test_the_system_is_paused_and_resumed(calls: Calls, app: Penstock) -> None:
    calls.definitions.pause_all("maintenance")
    paused = app.definitions.system_pause()
    assert paused is not None
    assert calls.definitions.system_pause().reason == paused.reason == "maintenance"

    calls.definitions.resume_all()

    assert app.definitions.system_pause() is None


def test_a_schedule_is_saved_changed_paused_triggered_and_deleted(calls: Calls, app: Penstock) -> None:
    calls.schedules.save("nightly", "mail", cron="0 3 * * *", params={"to": "eve"})
    calls.schedules.change("nightly", priority=4)
    calls.schedules.pause("nightly", "holidays")
    row = app.schedules.get("nightly")
    assert (row.schedule.expression, row.schedule.priority, row.pause is not None) == ("0 3 * * *", 4, True)

    calls.schedules.resume("nightly")
    made = calls.schedules.trigger("nightly")

    assert app.jobs.read(made.id).params == {"to": "eve"}
    assert len(calls.schedules.preview("nightly", 2).fires) == 2
    assert calls.schedules.get("nightly").schedule.key == calls.schedules.list()[0].schedule.key == "nightly"
    calls.schedules.delete("nightly")
    with pytest.raises(NotFound):
        calls.schedules.get("nightly")


def test_an_endpoint_is_saved_read_and_deleted(calls: Calls, app: Penstock) -> None:
    saved = calls.webhooks.save("https://example.com/hook", events=["job.failed"])
    rotated = calls.webhooks.rotate_secret(saved.endpoint.id)

    (kept,) = app.webhooks.list()
    assert (kept.url, kept.events) == ("https://example.com/hook", ("job.failed",))
    assert calls.webhooks.get(kept.id).id == calls.webhooks.list()[0].id == kept.id
    assert rotated.secret not in (None, saved.secret)
    assert calls.webhooks.deliveries().deliveries == []
    calls.webhooks.delete(kept.id)
    assert app.webhooks.list() == []


def test_a_token_is_made_listed_and_revoked(calls: Calls, app: Penstock) -> None:
    made = calls.tokens.create("reader", "viewer")

    assert app.tokens.authenticate(made.text).name == "reader"
    assert sorted(each.name for each in calls.tokens.list()) == ["operator", "reader"]
    calls.tokens.revoke(made.token.id)
    (revoked,) = [each for each in app.tokens.list() if each.name == "reader"]
    assert revoked.revoked_at is not None


def test_workers_are_configured(calls: Calls, app: Penstock) -> None:
    calls.workers.configure({"slots": 3})

    config, _ = app.workers.configuration()
    assert config.slots == calls.workers.configuration()[0].slots == 3
    assert calls.workers.list() == app.workers.list() == []


def test_figures_alerts_and_the_audit_are_read(calls: Calls, app: Penstock) -> None:
    app.enqueue("mail")
    calls.definitions.disable("mail")

    assert calls.monitoring.counts() == app.monitoring.counts()
    assert [each.definition_key for each in calls.monitoring.stats().definitions] == ["mail"]
    assert calls.monitoring.errors().errors == []
    assert [each.id for each in calls.monitoring.alerts()] == [each.id for each in app.monitoring.alerts()]
    assert calls.monitoring.alert_history() == []
    assert calls.audit.list(limit=1)[0].action == app.audit.list(limit=1)[0].action


def test_a_call_that_has_no_route_says_so(calls: Calls) -> None:
    with pytest.raises(Conflict, match="no route"):
        calls.monitoring.totals()
