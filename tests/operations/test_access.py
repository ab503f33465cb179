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
from penstock.operations import access as app_access
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
    made = app.create_token("deploy", Role.CREATOR, expires_in=timedelta(days=30), by="ann")
    other = await app.acreate_token("watcher", "viewer")

    assert app.authenticate(made.text) == made.token
    assert (await app.aauthenticate(other.text)).id == other.token.id
    assert (made.token.name, made.token.role, made.token.created_by) == ("deploy", Role.CREATOR, "ann")
    assert made.token.expires_at == made.token.created_at + timedelta(days=30)
    assert (other.token.role, other.token.created_by, other.token.expires_at) == (Role.VIEWER, "python", None)
    assert [each.id for each in app.tokens()] == [made.token.id, other.token.id]
    assert [each.id for each in await app.atokens()] == [made.token.id, other.token.id]
    assert app.count_usable_tokens() == await app.acount_usable_tokens() == 2


def test_the_text_of_a_token_is_not_shown_by_accident(memory_app: Penstock) -> None:
    made = memory_app.create_token("deploy", Role.CREATOR)

    assert made.text not in repr(made)
    assert made.text.split("_")[2] not in repr((made, memory_app.tokens()))


def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(app: Penstock) -> None:
    good, revoked = app.create_token("good", "admin"), app.create_token("revoked", "admin")
    expired = app.create_token("expired", "admin", expires_in=3600)
    app.revoke_token(revoked.token.id)
    change(app.store, f"UPDATE {{s}}token SET expires_at = created_at WHERE id = '{expired.token.id}'")
    own_id_other_secret = _with_id(good.text)

    wrong: list[Any] = [
        revoked.text, expired.text, own_id_other_secret, a_text(TOKEN), a_text(SESSION), good.text[:-1],
        good.text + "x", "", "x" * 100_000, None, good.text.encode(),
    ]  # fmt: skip

    assert [refused(partial(app.authenticate, text)) for text in wrong] == [True] * len(wrong)
    assert not refused(lambda: app.authenticate(good.text))
    assert refused(lambda: app.authenticate(own_id_other_secret)), "also while the good one is known"


def test_what_cannot_be_a_token_does_not_reach_the_store(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    good = app.create_token("good", "admin")
    names = asked(app, monkeypatch)

    assert refused(lambda: app.authenticate(good.text[:-1] + ("a" if good.text[-1] != "a" else "b")))

    assert names == []


async def test_a_revoked_token_is_refused_at_once_where_it_was_revoked(app: Penstock) -> None:
    made, other = app.create_token("deploy", "admin"), app.create_token("other", "admin")
    app.authenticate(made.text)
    app.authenticate(other.text)

    token = app.revoke_token(made.token.id, by="ann")
    await app.arevoke_token(other.token.id, by="ann")

    assert token.revoked_at is not None
    assert refused(lambda: app.authenticate(made.text))
    assert refused(lambda: app.authenticate(other.text))
    assert app.count_usable_tokens() == 0


def test_a_revoked_token_is_refused_everywhere_within_a_second(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    made = here.create_token("deploy", "admin")
    session, _ = here.open_session(made.text, 60)
    there.authenticate(made.text)
    there.session_token(session)

    here.revoke_token(made.token.id)
    began = time.monotonic()
    wait_until(lambda: refused(lambda: there.authenticate(made.text)), "the token is refused")
    wait_until(lambda: refused(lambda: there.session_token(session)), "its session is refused")

    assert app_access.FRESH <= 1
    assert time.monotonic() - began < app_access.FRESH + 2, "a second, and what a busy machine needs"


def test_what_was_read_before_a_revocation_is_not_remembered_after_it(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")
    reading: Any = app._authenticate(made.text)
    answer = app.store.run(next(reading))

    app.revoke_token(made.token.id)
    reading.send(answer)

    assert refused(lambda: app.authenticate(made.text))


def test_the_store_is_not_asked_twice_within_a_second(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app.create_token("deploy", "admin")
    now = time.monotonic()
    monkeypatch.setattr("penstock.operations.access.time.monotonic", lambda: now)
    names = asked(app, monkeypatch)

    for _ in range(5):
        app.authenticate(made.text)
    assert names == ["find_token", "touch_token"]
    now += app_access.FRESH
    app.authenticate(made.text)

    assert names == ["find_token", "touch_token", "find_token"]


def test_what_was_refused_is_looked_up_again(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    names, text = asked(app, monkeypatch), a_text(TOKEN)

    assert all(refused(lambda: app.authenticate(text)) for _ in range(3))

    assert names == ["find_token"] * 3


def test_an_application_remembers_only_so_many_tokens(memory_app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_access, "_MOST_KNOWN", 3)

    for n in range(8):
        memory_app.authenticate(memory_app.create_token(f"token {n}", "viewer").text)

    assert 1 <= len(memory_app._known_holders) <= 3


def test_an_application_that_was_closed_remembers_nothing(new_app: NewApp) -> None:
    app = new_app()
    made = app.create_token("deploy", "admin")
    app.authenticate(made.text)

    app.close()

    assert app._known_holders == {}
    assert app.authenticate(made.text).id == made.token.id


def test_the_last_use_of_a_token_is_known(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")
    assert made.token.last_used_at is None

    app.authenticate(made.text)

    (token,) = app.tokens()
    assert token.last_used_at is not None
    assert abs(token.last_used_at - datetime.now(UTC)) < timedelta(minutes=2)


@pytest.mark.parametrize("error", [StoreFull("There is no room left."), StoreUnavailable("It did not answer.")])
def test_a_store_that_cannot_be_written_still_lets_people_in(
    app: Penstock, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made, run = app.create_token("deploy", "admin"), app.store.run

    def full(plan: Plan[Any], **options: Any) -> Any:
        if plan.writes:
            raise error
        return run(plan, **options)

    monkeypatch.setattr(app.store, "run", full)

    assert app.authenticate(made.text).id == made.token.id


def test_a_store_that_does_not_answer_is_no_wrong_token(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app.create_token("deploy", "admin")

    def down(plan: Plan[Any], **options: Any) -> Any:
        raise StoreUnavailable("It did not answer.")

    monkeypatch.setattr(app.store, "run", down)

    with pytest.raises(StoreUnavailable):
        app.authenticate(made.text)


def test_an_unknown_token_cannot_be_revoked(app: Penstock) -> None:
    with pytest.raises(NotFound, match="There is no token 'aaaaaaaaaaa'"):
        app.revoke_token("a" * 11)


def test_a_text_given_in_place_of_an_id_is_not_repeated(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")

    with pytest.raises(InvalidInput, match="no id of a token") as raised:
        app.revoke_token(made.text)

    assert made.text.split("_")[2] not in str(raised.value)
    assert not refused(lambda: app.authenticate(made.text))


WRONG: list[tuple[str, Callable[[Penstock], Any]]] = [
    ("'king' is no role", lambda app: app.create_token("x", "king")),
    ("None is no role", lambda app: app.create_token("x", None)),  # type: ignore[arg-type]
    ("name must have 1 to 500", lambda app: app.create_token("", "admin")),
    ("A token needs a name", lambda app: app.create_token(None, "admin")),  # type: ignore[arg-type]
    ("expires_in must be more than 0", lambda app: app.create_token("x", "admin", expires_in=0)),
    ("expires_in must be between", lambda app: app.create_token("x", "admin", expires_in=-1)),
    ("by must have 1 to 500", lambda app: app.create_token("x", "admin", by="")),
    ("id of a request must have", lambda app: app.create_token("x", "admin", by=Actor("ann", "r" * 501))),
    ("ttl must be more than 0", lambda app: app.open_session("x", 0)),
    ("limit must be 1 to 1000", lambda app: app.audit(limit=0)),
    ("limit must be 1 to 1000", lambda app: app.audit(limit=1001)),
    ("before must be an integer", lambda app: app.audit(before="x")),  # type: ignore[arg-type]
    ("actor must be a text", lambda app: app.audit(actor=5)),  # type: ignore[arg-type]
    ("count must be an integer", lambda app: app.take_allowance("x", 1.5, 1)),  # type: ignore[arg-type]
    ("cannot be taken", lambda app: app.take_allowance("x", 1, 1, 2)),
    ("period must be between", lambda app: app.take_allowance("x", 1, -1)),
]


@pytest.mark.parametrize(("problem", "call"), WRONG, ids=[f"{n} {problem}" for n, (problem, _) in enumerate(WRONG)])
def test_what_is_wrong_is_refused(memory_app: Penstock, problem: str, call: Callable[[Penstock], Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        call(memory_app)

    assert problem in raised.value.message
    assert memory_app.tokens() == []


# Sessions


async def test_a_session_stands_for_its_token_until_it_is_closed(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")

    first, token = app.open_session(made.text, timedelta(hours=1))
    second, _ = await app.aopen_session(made.text, by="ann")

    assert token.id == app.session_token(first).id == (await app.asession_token(second)).id == made.token.id
    app.close_session(first, by="ann")
    await app.aclose_session(second)
    assert refused(lambda: app.session_token(first))
    assert refused(lambda: app.session_token(second))
    told = [(entry.action, entry.actor) for entry in reversed(app.audit())]
    assert told == [
        ("token.create", "python"), ("session.create", "token:deploy"), ("session.create", "ann"),
        ("session.end", "ann"), ("session.end", "token:deploy"),
    ]  # fmt: skip


def test_a_session_is_refused_like_a_token(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")
    good, _ = app.open_session(made.text)
    expired, _ = app.open_session(made.text)
    change(app.store, f"UPDATE {{s}}session SET expires_at = created_at WHERE id = '{expired.split('_')[1]}'")

    wrong: list[Any] = [expired, _with_id(good), a_text(SESSION), made.text, good[:-1], "", None]

    assert [refused(partial(app.session_token, text)) for text in wrong] == [True] * len(wrong)
    assert not refused(lambda: app.session_token(good))
    assert refused(lambda: app.open_session(good)), "a session begins no other one"


def test_a_session_ends_with_its_token(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")
    session, _ = app.open_session(made.text)
    app.session_token(session)

    app.revoke_token(made.token.id)

    assert refused(lambda: app.session_token(session))


def test_a_token_revoked_while_it_is_still_known_here_begins_no_session(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    made = here.create_token("deploy", "admin")
    here.authenticate(made.text)

    there.revoke_token(made.token.id)

    assert refused(lambda: here.open_session(made.text))


def test_only_the_session_itself_is_closed(app: Penstock) -> None:
    made = app.create_token("deploy", "admin")
    session, _ = app.open_session(made.text)

    for text in (_with_id(session), a_text(SESSION), made.text, "nonsense"):
        app.close_session(text)

    assert app.session_token(session).id == made.token.id
    assert not refused(lambda: app.authenticate(made.text))


# Allowances


async def test_an_allowance_is_shared_by_all_who_use_the_store(new_app: NewApp) -> None:
    here, there = new_app(), new_app()

    answers = [each.take_allowance("create:ann", 3, 60) for each in (here, there, here, there)]

    assert answers[:3] == [None, None, None]
    assert answers[3] is not None
    assert 0 < answers[3] <= 20
    assert await there.atake_allowance("create:bob", 3, timedelta(minutes=1), 3) is None
    assert await here.atake_allowance("create:bob", 3, timedelta(minutes=1)) is not None


# The audit


async def test_the_audit_tells_who_did_what_in_which_request(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    job = work.enqueue("x")
    actor = Actor("token:ann", "request-1")

    app.pause("work", "why not", by=actor)
    await app.acancel_job(job.id, by=actor)
    app.save_schedule("daily", "work", every="1d", params={"to": "x"}, by=actor)
    app.resume("work", by="bob")

    entries = app.audit()
    assert [(entry.action, entry.request_id) for entry in reversed(entries)] == [
        ("definition.pause", "request-1"), ("job.cancel", "request-1"), ("schedule.create", "request-1"),
        ("definition.resume", None),
    ]  # fmt: skip
    assert [entry.target for entry in await app.aaudit(actor="token:ann", action="job.cancel")] == [job.id]
    assert [entry.actor for entry in app.audit(target="work")] == ["bob", "token:ann"]
    assert app.audit(limit=1, before=entries[0].seq) == entries[1:2]


def test_no_secret_of_a_token_or_session_is_in_the_database(app: Penstock, tmp_path: Path) -> None:
    made = app.create_token("deploy", "admin")
    session, _ = app.open_session(made.text)
    app.authenticate(made.text)
    app.session_token(session)
    app.close_session(session)
    app.revoke_token(made.token.id)
    other = app.create_token("other", "admin")
    app.open_session(other.text)

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
