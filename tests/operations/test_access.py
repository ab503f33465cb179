"""Tokens, sessions and shared allowances, as an application gives them out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Actor,
    InvalidInput,
    NotFound,
    Penstock,
    Role,
    StoreFull,
    StoreUnavailable,
    Unauthenticated,
)
from penstock.domain.access import ID_BYTES, SECRET_BYTES, SESSION, TOKEN, write_credential
from penstock.domain.plan import Plan
from penstock.operations import tokens as app_access
from penstock.surface.tokens import Authenticate
from tests.applications import NewApp
from tests.definitions import shapes
from tests.storage.tables import change, dump
from tests.waiting import wait_until


def refused(call: Callable[[], Any]) -> bool:
    """Whether a call is refused, with the words that are always the same and nothing behind them."""
    try:
        call()
    except Unauthenticated as error:
        return (str(error), error.__cause__) == (str(Unauthenticated()), None)
    return False


def asked(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the plans that the store is given from now on."""
    names: list[str] = []
    run = app.store.run

    def counting(plan: Plan[Any], **options: Any) -> Any:
        names.append(plan.name)
        return run(plan, **options)

    monkeypatch.setattr(app.store, "run", counting)
    return names


def a_text(kind: str, public: bytes | None = None) -> str:
    """A text in good order that nobody was given."""
    return write_credential(kind, public or os.urandom(ID_BYTES), os.urandom(SECRET_BYTES))[0]


# Tokens


async def test_a_token_is_known_by_its_text(app: Penstock) -> None:
    made = app.tokens.create("deploy", Role.CREATOR, expires_in=timedelta(days=30), by="ann")
    other = await app.tokens.acreate("watcher", "viewer")

    assert app.tokens.authenticate(made.text) == made.token
    assert (await app.tokens.aauthenticate(other.text)).id == other.token.id
    assert (made.token.name, made.token.role, made.token.created_by) == ("deploy", Role.CREATOR, "ann")
    assert made.token.expires_at == made.token.created_at + timedelta(days=30)
    assert (other.token.role, other.token.created_by, other.token.expires_at) == (Role.VIEWER, "python", None)
    assert [each.id for each in app.tokens.list()] == [made.token.id, other.token.id]
    assert [each.id for each in await app.tokens.alist()] == [made.token.id, other.token.id]
    assert app.tokens.count_usable() == await app.tokens.acount_usable() == 2


def test_the_text_of_a_token_is_not_shown_by_accident(memory_app: Penstock) -> None:
    made = memory_app.tokens.create("deploy", Role.CREATOR)

    assert made.text not in repr(made)
    assert made.text.split("_")[2] not in repr((made, memory_app.tokens.list()))


def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(app: Penstock) -> None:
    good, revoked = app.tokens.create("good", "admin"), app.tokens.create("revoked", "admin")
    expired = app.tokens.create("expired", "admin", expires_in=3600)
    app.tokens.revoke(revoked.token.id)
    change(app.store, f"UPDATE {{s}}token SET expires_at = created_at WHERE id = '{expired.token.id}'")
    own_id_other_secret = _with_id(good.text)

    wrong: list[Any] = [
        revoked.text, expired.text, own_id_other_secret, a_text(TOKEN), a_text(SESSION), good.text[:-1],
        good.text + "x", "", "x" * 100_000, None, good.text.encode(),
    ]  # fmt: skip

    assert [refused(partial(app.tokens.authenticate, text)) for text in wrong] == [True] * len(wrong)
    assert not refused(lambda: app.tokens.authenticate(good.text))
    assert refused(lambda: app.tokens.authenticate(own_id_other_secret)), "also while the good one is known"


def test_what_cannot_be_a_token_does_not_reach_the_store(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    good = app.tokens.create("good", "admin")
    names = asked(app, monkeypatch)

    assert refused(lambda: app.tokens.authenticate(good.text[:-1] + ("a" if good.text[-1] != "a" else "b")))

    assert names == []


async def test_a_revoked_token_is_refused_at_once_where_it_was_revoked(app: Penstock) -> None:
    made, other = app.tokens.create("deploy", "admin"), app.tokens.create("other", "admin")
    app.tokens.authenticate(made.text)
    app.tokens.authenticate(other.text)

    token = app.tokens.revoke(made.token.id, by="ann")
    await app.tokens.arevoke(other.token.id, by="ann")

    assert token.revoked_at is not None
    assert refused(lambda: app.tokens.authenticate(made.text))
    assert refused(lambda: app.tokens.authenticate(other.text))
    assert app.tokens.count_usable() == 0


def test_a_revoked_token_is_refused_everywhere_within_a_second(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    made = here.tokens.create("deploy", "admin")
    session, _ = here.tokens.open_session(made.text, 60)
    there.tokens.authenticate(made.text)
    there.tokens.session_token(session)

    here.tokens.revoke(made.token.id)
    began = time.monotonic()
    wait_until(lambda: refused(lambda: there.tokens.authenticate(made.text)), "the token is refused")
    wait_until(lambda: refused(lambda: there.tokens.session_token(session)), "its session is refused")

    assert app_access.FRESH <= 1
    assert time.monotonic() - began < app_access.FRESH + 2, "a second, and what a busy machine needs"


def test_what_was_read_before_a_revocation_is_not_remembered_after_it(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")
    reading: Any = app_access.authenticate(app.session, Authenticate(made.text))
    answer = app.store.run(next(reading))

    app.tokens.revoke(made.token.id)
    reading.send(answer)

    assert refused(lambda: app.tokens.authenticate(made.text))


def test_the_store_is_not_asked_twice_within_a_second(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app.tokens.create("deploy", "admin")
    now = time.monotonic()
    monkeypatch.setattr("penstock.operations.tokens.time.monotonic", lambda: now)
    names = asked(app, monkeypatch)

    for _ in range(5):
        app.tokens.authenticate(made.text)
    assert names == ["find_token", "touch_token"]
    now += app_access.FRESH
    app.tokens.authenticate(made.text)

    assert names == ["find_token", "touch_token", "find_token"]


def test_what_was_refused_is_looked_up_again(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    names, text = asked(app, monkeypatch), a_text(TOKEN)

    assert all(refused(lambda: app.tokens.authenticate(text)) for _ in range(3))

    assert names == ["find_token"] * 3


def test_an_application_remembers_only_so_many_tokens(memory_app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_access, "_MOST_KNOWN", 3)

    for n in range(8):
        memory_app.tokens.authenticate(memory_app.tokens.create(f"token {n}", "viewer").text)

    assert 1 <= len(memory_app.session.memory.holders) <= 3


def test_an_application_that_was_closed_remembers_nothing(new_app: NewApp) -> None:
    app = new_app()
    made = app.tokens.create("deploy", "admin")
    app.tokens.authenticate(made.text)

    app.close()

    assert app.session.memory.holders == {}
    assert app.tokens.authenticate(made.text).id == made.token.id


def test_the_last_use_of_a_token_is_known(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")
    assert made.token.last_used_at is None

    app.tokens.authenticate(made.text)

    (token,) = app.tokens.list()
    assert token.last_used_at is not None
    assert abs(token.last_used_at - datetime.now(UTC)) < timedelta(minutes=2)


@pytest.mark.parametrize("error", [StoreFull("There is no room left."), StoreUnavailable("It did not answer.")])
def test_a_store_that_cannot_be_written_still_lets_people_in(
    app: Penstock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made, run = app.tokens.create("deploy", "admin"), app.store.run

    def full(plan: Plan[Any], **options: Any) -> Any:
        if plan.writes:
            raise error
        return run(plan, **options)

    monkeypatch.setattr(app.store, "run", full)

    assert app.tokens.authenticate(made.text).id == made.token.id


def test_a_store_that_does_not_answer_is_no_wrong_token(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app.tokens.create("deploy", "admin")

    def down(plan: Plan[Any], **options: Any) -> Any:
        raise StoreUnavailable("It did not answer.")

    monkeypatch.setattr(app.store, "run", down)

    with pytest.raises(StoreUnavailable):
        app.tokens.authenticate(made.text)


def test_an_unknown_token_cannot_be_revoked(app: Penstock) -> None:
    with pytest.raises(NotFound, match="There is no token 'aaaaaaaaaaa'"):
        app.tokens.revoke("a" * 11)


def test_a_text_given_in_place_of_an_id_is_not_repeated(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")

    with pytest.raises(InvalidInput, match="no id of a token") as raised:
        app.tokens.revoke(made.text)

    assert made.text.split("_")[2] not in str(raised.value)
    assert not refused(lambda: app.tokens.authenticate(made.text))


WRONG: list[tuple[str, Callable[[Penstock], Any]]] = [
    ("'king' is no role", lambda app: app.tokens.create("x", "king")),
    ("None is no role", lambda app: app.tokens.create("x", None)),  # type: ignore[arg-type]
    ("name must have 1 to 500", lambda app: app.tokens.create("", "admin")),
    ("A token needs a name", lambda app: app.tokens.create(None, "admin")),  # type: ignore[arg-type]
    ("expires_in must be more than 0", lambda app: app.tokens.create("x", "admin", expires_in=0)),
    ("expires_in must be between", lambda app: app.tokens.create("x", "admin", expires_in=-1)),
    ("by must have 1 to 500", lambda app: app.tokens.create("x", "admin", by="")),
    ("id of a request must have", lambda app: app.tokens.create("x", "admin", by=Actor("ann", "r" * 501))),
    ("ttl must be more than 0", lambda app: app.tokens.open_session("x", 0)),
    ("limit must be 1 to 1000", lambda app: app.audit.list(limit=0)),
    ("limit must be 1 to 1000", lambda app: app.audit.list(limit=1001)),
    ("before must be an integer", lambda app: app.audit.list(before="x")),  # type: ignore[arg-type]
    ("actor must be a text", lambda app: app.audit.list(actor=5)),  # type: ignore[arg-type]
    ("count must be an integer", lambda app: app.tokens.take_allowance("x", 1.5, 1)),  # type: ignore[arg-type]
    ("cannot be taken", lambda app: app.tokens.take_allowance("x", 1, 1, 2)),
    ("period must be between", lambda app: app.tokens.take_allowance("x", 1, -1)),
]


@pytest.mark.parametrize(("problem", "call"), WRONG, ids=[f"{n} {problem}" for n, (problem, _) in enumerate(WRONG)])
def test_what_is_wrong_is_refused(memory_app: Penstock, problem: str, call: Callable[[Penstock], Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        call(memory_app)

    assert problem in raised.value.message
    assert memory_app.tokens.list() == []


# Sessions


async def test_a_session_stands_for_its_token_until_it_is_closed(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")

    first, token = app.tokens.open_session(made.text, timedelta(hours=1))
    second, _ = await app.tokens.aopen_session(made.text, by="ann")

    assert (
        token.id == app.tokens.session_token(first).id == (await app.tokens.asession_token(second)).id == made.token.id
    )
    app.tokens.close_session(first, by="ann")
    await app.tokens.aclose_session(second)
    assert refused(lambda: app.tokens.session_token(first))
    assert refused(lambda: app.tokens.session_token(second))
    told = [(entry.action, entry.actor) for entry in reversed(app.audit.list())]
    assert told == [
        ("token.create", "python"), ("session.create", "token:deploy"), ("session.create", "ann"),
        ("session.end", "ann"), ("session.end", "token:deploy"),
    ]  # fmt: skip


def test_a_session_is_refused_like_a_token(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")
    good, _ = app.tokens.open_session(made.text)
    expired, _ = app.tokens.open_session(made.text)
    change(app.store, f"UPDATE {{s}}session SET expires_at = created_at WHERE id = '{expired.split('_')[1]}'")

    wrong: list[Any] = [expired, _with_id(good), a_text(SESSION), made.text, good[:-1], "", None]

    assert [refused(partial(app.tokens.session_token, text)) for text in wrong] == [True] * len(wrong)
    assert not refused(lambda: app.tokens.session_token(good))
    assert refused(lambda: app.tokens.open_session(good)), "a session begins no other one"


def test_a_session_ends_with_its_token(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")
    session, _ = app.tokens.open_session(made.text)
    app.tokens.session_token(session)

    app.tokens.revoke(made.token.id)

    assert refused(lambda: app.tokens.session_token(session))


def test_a_token_revoked_while_it_is_still_known_here_begins_no_session(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    made = here.tokens.create("deploy", "admin")
    here.tokens.authenticate(made.text)

    there.tokens.revoke(made.token.id)

    assert refused(lambda: here.tokens.open_session(made.text))


def test_only_the_session_itself_is_closed(app: Penstock) -> None:
    made = app.tokens.create("deploy", "admin")
    session, _ = app.tokens.open_session(made.text)

    for text in (_with_id(session), a_text(SESSION), made.text, "nonsense"):
        app.tokens.close_session(text)

    assert app.tokens.session_token(session).id == made.token.id
    assert not refused(lambda: app.tokens.authenticate(made.text))


# Allowances


async def test_an_allowance_is_shared_by_all_who_use_the_store(new_app: NewApp) -> None:
    here, there = new_app(), new_app()

    answers = [each.tokens.take_allowance("create:ann", 3, 60) for each in (here, there, here, there)]

    assert answers[:3] == [None, None, None]
    assert answers[3] is not None
    assert 0 < answers[3] <= 20
    assert await there.tokens.atake_allowance("create:bob", 3, timedelta(minutes=1), 3) is None
    assert await here.tokens.atake_allowance("create:bob", 3, timedelta(minutes=1)) is not None


# The audit


async def test_the_audit_tells_who_did_what_in_which_request(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    job = work.enqueue("x")
    actor = Actor("token:ann", "request-1")

    app.definitions.pause("work", "why not", by=actor)
    await app.jobs.acancel(job.id, by=actor)
    app.schedules.save("daily", "work", every="1d", params={"to": "x"}, by=actor)
    app.definitions.resume("work", by="bob")

    entries = app.audit.list()
    assert [(entry.action, entry.request_id) for entry in reversed(entries)] == [
        ("definition.pause", "request-1"), ("job.cancel", "request-1"), ("schedule.create", "request-1"),
        ("definition.resume", None),
    ]  # fmt: skip
    assert [entry.target for entry in await app.audit.alist(actor="token:ann", action="job.cancel")] == [job.id]
    assert [entry.actor for entry in app.audit.list(target="work")] == ["bob", "token:ann"]
    assert app.audit.list(limit=1, before=entries[0].seq) == entries[1:2]


def test_no_secret_of_a_token_or_session_is_in_the_database(app: Penstock, tmp_path: Path) -> None:
    made = app.tokens.create("deploy", "admin")
    session, _ = app.tokens.open_session(made.text)
    app.tokens.authenticate(made.text)
    app.tokens.session_token(session)
    app.tokens.close_session(session)
    app.tokens.revoke(made.token.id)
    other = app.tokens.create("other", "admin")
    app.tokens.open_session(other.text)

    everything = str(dump(app.store)).encode()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*"))

    assert other.token.id.encode() in everything, "it is a dump"
    for text in (made.text, session, other.text):
        secret = text.split("_")[2].encode()
        assert secret not in everything
        assert secret not in files


def _with_id(text: str) -> str:
    """A text in good order with the id of another one."""
    kind, public_id, *_ = text.split("_")
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = 0
    for digit in public_id:
        number = number * 62 + digits.index(digit)
    made = a_text(kind, number.to_bytes(ID_BYTES))
    assert made.split("_")[1] == public_id
    return made
