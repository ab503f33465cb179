"""The `.sql` files: the same statements in both dialects, each with a sentence."""

from __future__ import annotations

import re

from penstock.storage import statements

POSTGRES, SQLITE = statements.read("postgres"), statements.read("sqlite")
GIVEN_BY_THE_STORE = {"now", "boot", "steady"}


def test_both_dialects_have_the_same_statements() -> None:
    assert set(POSTGRES) == set(SQLITE)


def test_every_statement_says_in_a_sentence_what_it_does() -> None:
    for entry in (*POSTGRES.values(), *SQLITE.values()):
        assert re.fullmatch(r"[A-Z].+\.", entry.sentence), entry.name


def test_every_expression_that_a_statement_uses_is_known() -> None:
    known = {"schema", "now", "input", "filters", "along", "among", "order", "answer", "checked", "unless_there"}
    for entry in (*POSTGRES.values(), *SQLITE.values()):
        assert set(re.findall(r"\{(\w+)\}", entry.text + entry.each)) <= known, entry.name


def test_both_dialects_ask_for_the_same_values() -> None:
    for name, entry in SQLITE.items():
        asked = set(re.findall(r"(?<![:\w]):([a-z_]+)", entry.text + entry.each)) - GIVEN_BY_THE_STORE - {*entry.given}
        assert asked <= set(re.findall(r"%\((\w+)\)s", POSTGRES[name].text)), name


def test_tables_are_named_with_their_schema_in_postgresql_and_without_in_sqlite() -> None:
    for name, entry in POSTGRES.items():
        assert not re.search(r"\b(INTO|UPDATE|DELETE FROM) (?!\{schema\}\.|SET\b|OF\b|SKIP\b)\w", entry.text), name
    for name, entry in SQLITE.items():
        assert "{schema}" not in entry.text + entry.each, name


def test_no_statement_of_postgres_hides_a_limit_in_an_in_subquery() -> None:
    """A nested loop runs such a subquery again for each row, and each time it takes other rows: more than the limit."""
    hidden = [
        entry.name
        for entry in POSTGRES.values()
        if re.search(r"\bIN\s*\(\s*SELECT\b(?:[^()]|\([^()]*\))*\bLIMIT\b", entry.text)
    ]

    assert hidden == []


def test_every_statement_that_compares_a_fence_compares_the_worker_with_it() -> None:
    """After a failover a fence may be given out twice. Only operators and readers name an attempt by it alone."""
    handed_in = r"(?:input\.|\{input\}\.|:|%\()"
    fence = re.compile(rf"\bfence = {handed_in}fence(?:\)s)?(?:::integer)?")
    worker = re.compile(rf"\s+AND \+?(?:\w+\.)?(?:worker|done_by) (?:=|IS NOT DISTINCT FROM) {handed_in}worker")
    texts = [(entry.name, entry.text + entry.each) for entry in (*POSTGRES.values(), *SQLITE.values())]

    alone = {name for name, text in texts for found in fence.finditer(text) if worker.match(text, found.end()) is None}

    assert alone == {"decide_review", "read_logs"}
