"""One thing has one name: that of HTTP, also in Python, on the command line and in the guides."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from docs.writers.events_page import SENTENCES
from penstock.config.settings import SETTINGS
from penstock.definitions.orders import EnqueueOptions
from penstock.domain import attempt, event, job, job_list, stats, worker
from penstock.domain.definition import Definition
from penstock.domain.payload import camel
from penstock.domain.webhook import endpoint
from penstock.domain.why import Reason
from tests.docs.stated import PAGES, blocks, name_of, prose
from tests.http.document import document

SCHEMAS: dict[str, Any] = document()["components"]["schemas"]
CLI = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()

RECORDS: dict[type, tuple[str, dict[str, str]]] = {
    job.Job: (
        "Job",
        {"error_type": "error.type", "reference_type": "reference.type", "reference_id": "reference.id",
         "blocked": "of the store; `why` tells it"},
    ),
    attempt.Attempt: ("Attempt", {"error_type": "error.type", "job_id": "in the path"}),
    attempt.Phase: ("Phase", {"job_id": "in the path"}),
    attempt.Review: ("Review", {"job_id": "in the path", "result": "the job's"}),
    attempt.StoredLog: ("LogLine", {}),
    job_list.JobFilter: ("FilterRequest", {"error": "of lists alone", "params": "of lists alone"}),
    EnqueueOptions: ("JobRequest", {"connection": "cannot be sent"}),
    event.Event: ("Event", {}),
    endpoint.Endpoint: ("Webhook", {}),
    endpoint.Delivery: ("Delivery", {"seq": "of the store"}),
    endpoint.Try: ("Try", {}),
    stats.DefinitionStats: ("DefinitionStats", {}),
    stats.ErrorGroup: ("ErrorGroup", {"error_type": "type", "error": "message"}),
    stats.MinuteStats: ("MinuteStats", {}),
    stats.Flow: ("Flow", {}),
    worker.WorkerRow: ("Worker", {"lanes": "numbers of definitions in the store", "figures": "in /metrics"}),
    worker.Duty: ("Duty", {}),
    Reason: ("Reason", {}),
    Definition: ("DefinitionVersion", {"key": "of the definition"}),
}  # fmt: skip
"""Records of Python with the shape that HTTP gives them, and the fields that differ, each with the reason."""

OWN = {job.Job: "jobId", endpoint.Endpoint: "webhookId", endpoint.Delivery: "deliveryId", worker.WorkerRow: "workerId"}
"""What a record calls `id` names its noun over HTTP."""

FLAGS = {
    "all": "in place of names",
    "at": "an expression of this kind",
    "cron": "an expression of this kind",
    "every": "an expression of this kind",
    "data": "the folder of the demo",
    "dialect": "of the SQL that is printed",
    "event": "one of `events`",
    "exit-when-done": "how the demo ends",
    "follow": "how long it prints",
    "help": "what it takes",
    "install": "where the completion goes",
    "json": "how it prints",
    "ndjson": "how it prints",
    "no-worker": "a server without one",
    "param": "one of `params`",
    "quiet": "how it prints",
    "schema": "of PostgreSQL, in SQL that is printed",
    "secret-file": "a secret is no argument",
    "strict": "when the exit code is not 0",
    "timeout": "how long it waits",
    "version": "that of penstock itself",
    "wait": "when it returns",
    "watch": "when it returns",
    "yes": "asks nothing",
}
"""Flags that are no field of the API."""


def known_names() -> set[str]:
    """Every field and parameter of the API."""
    found = {name for schema in SCHEMAS.values() for name in schema.get("properties", {})}
    for operations in document()["paths"].values():
        for operation in operations.values():
            found |= {each["name"] for each in operation.get("parameters", ())}
    return found


def names_read(record: Any) -> set[str]:
    """The names by which a record is read: of what it keeps as JSON text, that of the value."""
    value_of = {f"{name}_text": name for name in vars(record)}
    return {value_of.get(each.name, each.name) for each in fields(record)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: each.__name__)
def test_a_record_has_the_names_of_the_api(record: Any) -> None:
    shape, others = RECORDS[record]
    told = set(SCHEMAS[shape]["properties"])
    other = [
        f"{record.__name__}.{name} is no field of {shape}: give both the API's name, or say in RECORDS why not."
        for name in names_read(record)
        if name not in others and camel(name) not in told and (name != "id" or OWN.get(record) not in told)
    ]

    assert other == []
    assert others.keys() <= names_read(record)


def test_a_flag_has_the_name_of_a_field_or_a_setting() -> None:
    names = known_names()
    settings = {each.flag.removeprefix("--") for each in SETTINGS if each.flag}
    flags = {flag.removeprefix("no-") if flag != "no-worker" else flag for flag in re.findall(r"--([a-z][a-z-]+)", CLI)}

    assert sorted(FLAGS.keys() - flags) == []
    assert sorted(
        f"--{flag}: no field or setting is called so; use its name, or say in FLAGS what it is."
        for flag in flags - settings - FLAGS.keys()
        if camel(flag.replace("-", "_")) not in names
    ) == []  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_the_names_in_a_page_exist(page: Path) -> None:
    text, whole = prose(page), page.read_text()
    names = known_names() | set(endpoint.GROUPS) | {"accessToken"}
    names |= {key for _, keys in SENTENCES.values() for key in keys.split(", ")}
    camels = set(re.findall(r"`(?:\w+\.)*([a-z]+(?:[A-Z][a-z0-9]*)+)`", text))
    keys = {
        key
        for language, block in blocks(page)
        if language in ("sh", "json", "http")
        for key in re.findall(r'"([a-z]+(?:[A-Z][a-z0-9]*)+)"\s*:', block)
    }
    variables = set(re.findall(r"PENSTOCK_[A-Z_]+", whole))
    flags = set(re.findall(r"`(?:penstock [^`]*)?(--[a-z][a-z-]+)", text))

    assert sorted((camels | keys) - names) == [], "no field of the API is called so: use its name"
    assert sorted(variables - _variables()) == [], "no setting is read from it: use that of docs/reference/settings.md"
    assert sorted(flag for flag in flags if flag not in CLI and flag not in _OF_OTHERS) == [], "no command takes it"


_OF_OTHERS = {"--pid", "--time"}
"""Flags of other programs."""


def _variables() -> set[str]:
    own = {each.environment for each in SETTINGS}
    # What a job gets, and what tests and builds look at.
    others = {"PENSTOCK_JOB_ID", "PENSTOCK_FENCE", "PENSTOCK_ATTEMPT", "PENSTOCK_REPOSITORY"}
    return own | {f"{each.environment}_FILE" for each in SETTINGS if each.secret} | others
