"""The reference of the command line holds what the commands say."""

from __future__ import annotations

from docs.writers import cli_page
from penstock.cli.exit_codes import MEANINGS, Exit

NOUNS = ("jobs", "definitions", "schedules", "workers", "events", "webhooks", "tokens", "errors", "alerts")


def test_the_help_of_every_command_is_on_the_page() -> None:
    page = cli_page.write()

    found = [" ".join(words) for words in cli_page.commands()]

    assert {"enqueue", "status", "version", "completion", "serve", "worker", "tick", *NOUNS} <= set(found)
    for verb in (
        "list",
        "show",
        "watch",
        "logs",
        "why",
        "wait",
        "cancel",
        "retry",
        "rerun",
        "approve",
        "reject",
        "delete",
    ):
        assert f"jobs {verb}" in found
    for words in found:
        assert f"\n## penstock {words}\n" in page
        assert f"Usage: penstock {words}" in page


def test_every_flag_and_argument_has_a_sentence() -> None:
    silent = [
        f"{' '.join(words)}: {line}"
        for words in cli_page.commands()
        for line in (each.strip("│ ") for each in cli_page.help_text(words).splitlines() if each.startswith("│"))
        if line.startswith("--") and not line.startswith("--no-") and len(line.split()) < 3
    ]

    assert silent == []


def test_every_exit_code_has_a_meaning_on_the_page() -> None:
    page = cli_page.write()

    assert set(MEANINGS) == set(Exit)
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in page
