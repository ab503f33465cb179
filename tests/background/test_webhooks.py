"""Webhooks: from the feed to a real receiver, whatever it does, and whoever is killed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from penstock.background import webhook_sender
from penstock.background.webhooks import WebhookDispatcher
from penstock.domain.errors import InvalidInput
from penstock.domain.webhook.endpoint import DELIVERED, FAILED, WAITING, Delivery
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.signature import secret_text
from penstock.integrations import webhook_receiver as receiving
from penstock.storage import ports
from tests.background.receivers import Receiver, cut, endless, status
from tests.services import unavailable
from tests.storage.tables import change
from tests.waiting import wait_until, wait_until_async
from tests.worker.fleet import QUICK, Stage, command

GLOBAL_SECRET = secret_text(os.urandom(24))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def shop(stage: Stage, receiver: Receiver) -> Stage:
    """A store with a definition, whose application may send to this host."""
    stage.app.webhook_settings = allowing(receiver)

    @stage.app.job("work")
    def work(n: int = 0) -> None: ...

    stage.app.enqueue("work")
    return stage


def allowing(receiver: Receiver, **options: Any) -> WebhookSettings:
    facts: dict[str, Any] = {
        "allow_http": True, "ports": (receiver.port,), "allowed_networks": ("127.0.0.0/8",), "timeout": 10.0,
        "retries": (0.05, 0.05, 0.05), "poll": 0.05, "breaker_failures": 100, "global_secret": GLOBAL_SECRET,
    }  # fmt: skip
    return WebhookSettings(**{**facts, **options})


@asynccontextmanager
async def dispatching(stage: Stage, receiver: Receiver, **options: Any) -> AsyncIterator[WebhookDispatcher]:
    """A dispatcher in this process, as a worker has it."""
    made = WebhookDispatcher(stage.app.store, ports.webhooks, lambda: "here", allowing(receiver, **options))
    duty = made.service()
    running = asyncio.ensure_future(duty.run())
    try:
        yield made
        assert duty.errors == 0
    finally:
        duty.stop()
        await asyncio.wait_for(running, 30)


def ended_job(stage: Stage, **options: Any) -> str:
    job = stage.app.enqueue("work", **options)
    job.cancel()
    return job.id


def deliveries(stage: Stage, job_id: str) -> list[Delivery]:
    return stage.app.deliveries(job_id=job_id).deliveries


async def settled(stage: Stage, job_id: str, wanted: str, timeout: float = 30) -> Delivery:
    """Wait until the only delivery of a job stands so."""

    async def found() -> Delivery | None:
        page = await stage.app.adeliveries(job_id=job_id)
        return next((each for each in page.deliveries if each.status == wanted), None)

    delivery = await wait_until_async(found, f"the delivery is {wanted}", timeout)
    assert delivery is not None
    return delivery


async def test_a_webhook_arrives_signed_so_that_others_can_check_it(shop: Stage, receiver: Receiver) -> None:
    saved = await shop.app.asave_webhook(receiver.url("/hook"))
    job_id = ended_job(shop, params={"n": 9007199254740993})

    async with dispatching(shop, receiver) as dispatcher:
        delivery = await settled(shop, job_id, DELIVERED)
    (request,) = receiver.to("/hook")

    assert saved.secret is not None
    assert standardwebhooks.Webhook(saved.secret).verify(request.body, request.headers)["type"] == "job.cancelled"
    assert receiving.verify(request.body, request.headers, saved.secret)["data"]["job"]["jobId"] == job_id
    own = {"X-Penstock-Signature": request.headers["x-penstock-signature"]}
    assert receiving.verify(request.body, own, saved.secret)["id"] == delivery.id == request.id
    assert request.headers["content-type"] == "application/json"
    assert b'"n":9007199254740993' in request.body
    assert shop.app.read_job(job_id).webhook_sent is True
    assert shop.kinds(shop.app.get(job_id))[-1] == "job.webhook.delivered"
    assert dispatcher.sent == 1


async def test_the_global_url_is_signed_with_the_global_secret_and_urls_of_jobs_with_that_of_their_origin(
    shop: Stage, receiver: Receiver
) -> None:
    own = allowing(receiver).secret_for(receiver.url("/"))
    assert own is not None
    job_id = ended_job(shop, webhook_url=receiver.url("/mine"))

    async with dispatching(shop, receiver, global_url=receiver.url("/all")):
        await asyncio.to_thread(receiver.wait, "/mine")
        await asyncio.to_thread(receiver.wait, "/all")
        await wait_until_async(
            lambda: {each.status for each in deliveries(shop, job_id)} == {DELIVERED}, "both are delivered"
        )

    (mine,), (to_all,) = receiver.to("/mine"), receiver.to("/all")
    for request, secret, other in ((mine, own, GLOBAL_SECRET), (to_all, GLOBAL_SECRET, own)):
        told = receiving.verify(request.body, request.headers, secret)
        assert (told["data"]["job"]["jobId"], told["data"]["job"]["webhookUrl"]) == (job_id, f"{receiver.url('')}/***")
        with pytest.raises(receiving.InvalidSignature):
            receiving.verify(request.body, request.headers, other)


async def test_without_a_global_secret_the_url_of_a_job_gets_no_signature(shop: Stage, receiver: Receiver) -> None:
    ended_job(shop, webhook_url=receiver.url("/mine"))

    async with dispatching(shop, receiver, global_secret=None):
        (request,) = await asyncio.to_thread(receiver.wait, "/mine")

    assert "webhook-signature" not in request.headers
    with pytest.raises(receiving.InvalidSignature):
        receiving.verify(request.body, request.headers, GLOBAL_SECRET)


@pytest.mark.parametrize("trouble", [500, 429, 408, 503, "cut"])
async def test_after_trouble_the_same_message_comes_again(shop: Stage, receiver: Receiver, trouble: int | str) -> None:
    answer = cut if isinstance(trouble, str) else status(trouble)
    url = receiver.answers("/hook", answer, answer, status(200, b"thanks"))
    job_id = ended_job(shop, webhook_url=url)

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, DELIVERED)

    assert delivery.tries == len(receiver.to("/hook")) == 3
    assert len({(each.id, each.body) for each in receiver.to("/hook")}) == 1
    tries = shop.app.get_delivery(delivery.id).tries
    assert [each.number for each in tries] == [1, 2, 3]
    assert tries[-1].excerpt == "thanks"
    assert all(each.duration >= 0 for each in tries)


async def test_retry_after_is_honoured(shop: Stage, receiver: Receiver) -> None:
    url = receiver.answers("/hook", status(429, Retry_After="600"), status(200))
    job_id = ended_job(shop, webhook_url=url)

    async with dispatching(shop, receiver):
        await asyncio.to_thread(receiver.wait, "/hook")
        delivery = await wait_until_async(
            lambda: next((each for each in deliveries(shop, job_id) if each.status_code == 429), None), "it is settled"
        )

    assert delivery is not None
    assert delivery.status == WAITING
    assert (delivery.due_at - delivery.created_at).total_seconds() > 500


@pytest.mark.parametrize("code", [302, 307, 400, 404])
async def test_an_answer_that_will_not_change_is_final_and_no_redirect_is_followed(
    shop: Stage, receiver: Receiver, code: int
) -> None:
    url = receiver.answers("/hook", status(code, Location=receiver.url("/inside")))
    job_id = ended_job(shop, webhook_url=url)

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, FAILED)

    assert (delivery.status_code, delivery.tries) == (code, 1)
    assert [each.path for each in receiver.requests] == ["/hook"]
    assert shop.kinds(shop.app.get(job_id))[-1] == "job.webhook.failed"
    assert shop.app.read_job(job_id).webhook_sent is False


async def test_410_disables_the_endpoint(shop: Stage, receiver: Receiver) -> None:
    saved = shop.app.save_webhook(receiver.answers("/hook", status(410)))
    job_id = ended_job(shop)

    async with dispatching(shop, receiver):
        await settled(shop, job_id, FAILED)

    assert not shop.app.get_webhook(saved.endpoint.id).enabled


async def test_a_receiver_that_is_down_gets_its_message_when_it_is_back(shop: Stage) -> None:
    gone = Receiver()
    gone.close()
    shop.app.webhook_settings = allowing(gone)
    job_id = ended_job(shop, webhook_url=gone.url("/hook"))

    async with dispatching(shop, gone, retries=(0.05,) * 1000):
        await wait_until_async(lambda: any(each.tries > 2 for each in deliveries(shop, job_id)), "it was tried")
        delivery = deliveries(shop, job_id)[0]
        assert delivery.status == WAITING
        assert "ConnectError" in (shop.app.get_delivery(delivery.id).tries[0].error or "")


async def test_a_receiver_that_is_slow_is_given_up_in_time_and_delays_no_other(shop: Stage, receiver: Receiver) -> None:
    slow = [ended_job(shop, webhook_url=receiver.answers("/slow", receiver.hold)) for _ in range(4)]
    saved = shop.app.save_webhook(receiver.url("/quick"))

    async with dispatching(shop, receiver, timeout=6.0, retries=(600.0,)):
        await asyncio.to_thread(receiver.wait, "/slow")
        quick = [ended_job(shop) for _ in range(5)]
        arrived = await asyncio.to_thread(receiver.wait, "/quick", 5)
        assert not any(each.error for job_id in slow for each in deliveries(shop, job_id))
        assert sorted(each.told["data"]["job"]["jobId"] for each in arrived) == sorted(quick)
        await wait_until_async(lambda: any(each.error for each in deliveries(shop, slow[0])), "it is given up", 20)

    assert "no answer within 6 s" in str([each.error for each in deliveries(shop, slow[0])])
    assert len(receiver.to("/slow")) <= 4
    assert shop.app.get_webhook(saved.endpoint.id).failures == 0


async def test_an_endless_answer_is_cut_and_its_excerpt_is_short(shop: Stage, receiver: Receiver) -> None:
    job_id = ended_job(shop, webhook_url=receiver.answers("/hook", endless))

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, DELIVERED)

    assert shop.app.get_delivery(delivery.id).tries[0].excerpt == "x" * 1024


async def test_a_receiver_that_keeps_failing_is_left_alone(shop: Stage, receiver: Receiver) -> None:
    saved = shop.app.save_webhook(receiver.answers("/hook", status(500)))
    for _ in range(20):
        ended_job(shop)

    async with dispatching(shop, receiver, breaker_failures=3, breaker_pause=600.0, retries=(0.05,) * 100):
        await wait_until_async(lambda: shop.app.get_webhook(saved.endpoint.id).open_until, "it pauses")
        reached = len(receiver.requests)
        other = ended_job(shop, webhook_url=receiver.url("/other"))
        await asyncio.to_thread(receiver.wait, "/other")

    assert other
    assert len(receiver.to("/hook")) <= reached + 1 <= 6


async def test_both_secrets_sign_while_one_is_replaced(shop: Stage, receiver: Receiver) -> None:
    saved = shop.app.save_webhook(receiver.url("/hook"))
    rotated = shop.app.rotate_webhook_secret(saved.endpoint.id)
    ended_job(shop)

    async with dispatching(shop, receiver):
        (request,) = await asyncio.to_thread(receiver.wait, "/hook")

    for secret in (saved.secret, rotated.secret):
        assert secret is not None
        assert standardwebhooks.Webhook(secret).verify(request.body, request.headers)


async def test_a_job_that_is_gone_is_told_all_the_same_and_quietly(shop: Stage, receiver: Receiver) -> None:
    job_id = ended_job(shop, webhook_url=receiver.url("/hook"))
    shop.app.store.run(ports.webhooks.create_deliveries())
    shop.app.delete_job(job_id)

    async with dispatching(shop, receiver):
        await settled(shop, job_id, DELIVERED)

    kinds = [each.type for each in shop.app.store.run(ports.feed.of_job(job_id))]
    assert kinds[-1] == "job.deleted"


async def test_a_redelivery_sends_the_same_again(shop: Stage, receiver: Receiver) -> None:
    job_id = ended_job(shop, webhook_url=receiver.answers("/hook", status(404), status(200)))

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, FAILED)
        await shop.app.aredeliver(delivery.id, by="anna")
        await settled(shop, job_id, DELIVERED)

    assert len({(each.id, each.body) for each in receiver.to("/hook")}) == 1


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (["127.0.0.1"], False),
        (["127.0.0.1", "127.0.0.1"], False),
        (["127.0.0.1", "10.0.0.1"], True),
        (["127.0.0.1", "169.254.169.254"], True),
        (["::ffff:10.0.0.1"], True),
        (["64:ff9b::a00:1"], True),
        ([], True),
    ],
)
async def test_every_address_of_a_name_is_checked_and_the_checked_one_is_used(
    shop: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, found: list[str], refused: bool
) -> None:
    asked: list[str] = []

    def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return found

    monkeypatch.setattr(webhook_sender, "_look_up", look_up)
    job_id = ended_job(shop, webhook_url=f"http://receiver.test:{receiver.port}/hook")

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, FAILED if refused else DELIVERED)

    assert asked == ["receiver.test"]
    assert len(receiver.requests) == (0 if refused else 1)
    if refused:
        assert "receiver.test" in (delivery.error or "")
    else:
        assert receiver.requests[0].headers["host"] == f"receiver.test:{receiver.port}"


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:{port}/", "http://127.0.0.1:22/", "http://2130706433:{port}/", "https://[::1]:{port}/"]
)
async def test_a_url_that_is_not_allowed_fails_at_once_and_nothing_is_sent(
    shop: Stage, receiver: Receiver, url: str
) -> None:
    whole = url.format(port=receiver.port)
    with pytest.raises(InvalidInput, match="cannot be a webhook's URL"):
        ended_job(shop, webhook_url=whole)
    # Other settings may have let it in.
    job_id = ended_job(shop, webhook_url=receiver.url("/"))
    change(shop.app.store, f"UPDATE {{s}}job_detail SET webhook_url = '{whole}' WHERE id = '{job_id}'")

    async with dispatching(shop, receiver):
        delivery = await settled(shop, job_id, FAILED)

    assert delivery.tries == 1
    assert "cannot be a webhook's URL" in (delivery.error or "")
    assert receiver.requests == []


@pytest.mark.parametrize("options", [{}, {"refused_networks": ("127.0.0.0/8",)}])
async def test_a_name_that_leads_to_an_own_address_is_refused_although_the_address_is_public(
    shop: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(webhook_sender, "_look_up", lambda host, port: ["127.0.0.1"])
    # A test has no public address: the loopback counts as one.
    monkeypatch.setattr(webhook_sender, "address_allowed", lambda address: True)
    if options:
        monkeypatch.setattr(webhook_sender, "is_own", lambda address: False)
    job_id = ended_job(shop, webhook_url=f"http://receiver.test:{receiver.port}/hook")

    async with dispatching(shop, receiver, allowed_networks=(), **options):
        delivery = await settled(shop, job_id, FAILED)

    assert ("no webhook may be sent" if options else "which is this host") in (delivery.error or "")
    assert (delivery.tries, receiver.requests) == (1, [])


@pytest.mark.parametrize(("address", "own"), [("127.0.0.1", True), ("192.0.2.1", False), ("2001:db8::1", False)])
def test_own_addresses_are_told_from_others(address: str, own: bool) -> None:
    assert webhook_sender.is_own(ip_address(address)) is own


async def test_proxies_and_passwords_of_the_environment_are_not_used(
    shop: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login anna password hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    ended_job(shop, webhook_url=receiver.url("/hook"))

    async with dispatching(shop, receiver):
        (request,) = await asyncio.to_thread(receiver.wait, "/hook")

    assert "authorization" not in request.headers
    assert "cookie" not in request.headers


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(shop: Stage, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        unavailable("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secure = Receiver()
    secure._server.socket = context.wrap_socket(secure._server.socket, server_side=True)
    shop.app.webhook_settings = allowing(secure)
    job_id = ended_job(shop, webhook_url=f"https://localhost:{secure.port}/hook")

    async with dispatching(shop, secure, retries=(), allowed_networks=("127.0.0.0/8", "::1/128")):
        delivery = await settled(shop, job_id, FAILED)
    secure.close()

    assert "CERTIFICATE_VERIFY_FAILED" in (delivery.error or "") or "certificate" in (delivery.error or "").lower()
    assert secure.requests == []


async def test_two_dispatchers_send_each_message_once(shop: Stage, receiver: Receiver) -> None:
    shop.app.save_webhook(receiver.url("/hook"))
    jobs = [ended_job(shop) for _ in range(30)]

    async with dispatching(shop, receiver), dispatching(shop, receiver):
        for job_id in jobs:
            await settled(shop, job_id, DELIVERED)

    assert sorted(each.told["data"]["job"]["jobId"] for each in receiver.requests) == sorted(jobs)


def configure(stage: Stage, receiver: Receiver) -> None:
    """Let real processes send to this host, and the test create jobs that ask for it."""
    stage.app.webhook_settings = allowing(receiver)
    (stage.folder / "penstock.toml").write_text(
        f"[webhooks]\nallow_http = true\nports = [{receiver.port}]\nallowed_networks = ['127.0.0.0/8']\n"
        "timeout = 3.0\nretries = [1.0, 0.1, 0.1, 0.1]\npoll = 0.1\n"
    )
    stage.environment["PENSTOCK_WEBHOOK_SECRET"] = GLOBAL_SECRET


def worker(stage: Stage, receiver: Receiver) -> Any:
    configure(stage, receiver)
    return command(stage, "worker", "tests.worker.scripted:app", *QUICK)


def test_a_worker_that_dies_while_it_sends_loses_nothing_and_the_id_stays(stage: Stage, receiver: Receiver) -> None:
    receiver.answers("/hook", receiver.hold, status(200))
    first = worker(stage, receiver)
    job = stage.enqueue("script", [["return", 1]], webhook_url=receiver.url("/hook"))
    receiver.wait("/hook")
    first.send(signal.SIGKILL)
    first.wait()
    assert deliveries(stage, job.id)[0].status == WAITING

    worker(stage, receiver)
    receiver.wait("/hook", 2)
    wait_until(lambda: deliveries(stage, job.id)[0].status == DELIVERED, "it is delivered", 30)

    one, other = receiver.to("/hook")[:2]
    assert (one.id, one.body) == (other.id, other.body)
    assert json.loads(one.body)["type"] == "job.succeeded"
    secret = allowing(receiver).secret_for(receiver.url("/")) or ""
    assert receiving.verify(other.body, other.headers, secret)["data"]["job"]["result"] == 1
    assert GLOBAL_SECRET not in "".join(each.output for each in stage.workers)


def test_a_sender_that_dies_between_its_commit_and_its_send_loses_nothing(shop: Stage, receiver: Receiver) -> None:
    job_id = ended_job(shop, webhook_url=receiver.url("/hook"))
    shop.app.store.run(ports.webhooks.create_deliveries())
    (parcel,) = shop.app.store.run(ports.webhooks.take_deliveries("dead", 10, 1_500_000))

    worker(shop, receiver)
    (request,) = receiver.wait("/hook")

    assert (request.id, request.body.decode()) == (parcel.id, parcel.body)
    wait_until(lambda: deliveries(shop, job_id)[0].status == DELIVERED, "it is delivered", 30)
    assert deliveries(shop, job_id)[0].tries == 2


def test_a_host_that_only_has_cron_sends_webhooks_with_its_pass(shop: Stage, receiver: Receiver) -> None:
    job_id = ended_job(shop, webhook_url=receiver.answers("/hook", status(500), status(200)))
    configure(shop, receiver)

    passed = command(shop, "tick", "tests.worker.scripted:app", wait=False)

    assert passed.wait() == 0, passed.output
    assert len(receiver.to("/hook")) == 1
    assert deliveries(shop, job_id)[0].status == WAITING


def test_a_worker_that_is_told_to_stop_ends_in_time_although_a_receiver_does_not_answer(
    stage: Stage, receiver: Receiver
) -> None:
    receiver.answers("/hook", receiver.hold)
    running = worker(stage, receiver)
    stage.enqueue("script", [["return", 1]], webhook_url=receiver.url("/hook"))
    receiver.wait("/hook")

    assert running.stop() == 0
    assert "Traceback" not in running.output
    assert "was destroyed" not in running.output
