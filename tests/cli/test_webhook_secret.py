"""`penstock webhooks secret`: what signs messages to the URLs of jobs."""

from __future__ import annotations

from pathlib import Path

from penstock.domain.webhook.signature import origin_secret, secret_text
from tests.cli.shell import Shell

GLOBAL = secret_text(bytes(range(32)))


def test_the_secret_of_an_origin_is_printed_and_the_global_one_is_not(tmp_path: Path) -> None:
    shell = Shell(tmp_path, PENSTOCK_WEBHOOK_SECRET=GLOBAL)

    done = shell.run("webhooks", "secret", "https://hooks.example/any/path")

    assert done.out.strip() == origin_secret(GLOBAL, "https://hooks.example:443")
    assert GLOBAL not in done.out + done.err


def test_without_a_global_secret_there_is_none(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("webhooks", "secret", "https://hooks.example/", code=2)

    assert "PENSTOCK_WEBHOOK_SECRET" in done.err
