"""Roles, and the texts by which tokens and sessions are presented."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import access
from penstock.domain.access import SESSION, TOKEN, Actor, Role
from penstock.domain.errors import Unauthenticated

PUBLIC = st.binary(min_size=8, max_size=8)
SECRET = st.binary(min_size=32, max_size=32)
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TEXT, CREDENTIAL = access.write_credential(TOKEN, bytes(range(8)), bytes(range(100, 132)))


def test_each_role_covers_itself_and_those_before_it() -> None:
    table = {role: [other for other in Role if role.covers(other)] for role in Role}

    assert [str(role) for role in Role] == ["viewer", "creator", "admin", "super_admin"]
    assert table == {role: list(Role)[: n + 1] for n, role in enumerate(Role)}


@given(PUBLIC, SECRET)
def test_a_text_that_was_written_can_be_read(public: bytes, secret: bytes) -> None:
    text, credential = access.write_credential(TOKEN, public, secret)

    assert re.fullmatch(r"pst_[0-9A-Za-z]{11}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}", text)
    assert access.read_credential(TOKEN, text) == credential
    assert access.is_public_id(credential.id)


@given(PUBLIC, SECRET, SECRET)
def test_another_secret_has_another_digest(public: bytes, secret: bytes, other: bytes) -> None:
    _, one = access.write_credential(TOKEN, public, secret)
    _, two = access.write_credential(TOKEN, public, other)

    assert one.id == two.id
    assert access.proves(one, two.digest) == (secret == other)


def test_what_is_stored_is_the_digest_of_the_secret_and_does_not_hold_it() -> None:
    secret = TEXT.split("_")[2]

    assert hashlib.sha256(secret.encode()).hexdigest() == CREDENTIAL.digest
    assert secret not in repr(CREDENTIAL)
    assert CREDENTIAL.digest not in repr(CREDENTIAL)


def test_every_typo_of_one_letter_is_refused_without_asking_anybody() -> None:
    for place in range(len(TEXT)):
        for letter in (LETTERS[(LETTERS.find(TEXT[place]) + 1) % 62], "_", "é", " ", ""):
            if letter != TEXT[place]:
                with pytest.raises(Unauthenticated):
                    access.read_credential(TOKEN, TEXT[:place] + letter + TEXT[place + 1 :])


def test_neighbours_that_changed_places_are_refused() -> None:
    swapped = {TEXT[:n] + TEXT[n + 1] + TEXT[n] + TEXT[n + 2 :] for n in range(len(TEXT) - 1)} - {TEXT}

    assert len(swapped) > 50
    for text in swapped:
        with pytest.raises(Unauthenticated):
            access.read_credential(TOKEN, text)


BAD: list[object] = [
    "", "pst", "pst_", "Bearer", TEXT + "\n", " " + TEXT, TEXT * 2, TEXT.upper(), TEXT[4:], "x" * 1_000_000,
    TEXT.replace("pst", "pss"), TEXT.replace("_", "-"), "\x00" * 66, "ü" * 66, None, 5, TEXT.encode(), [TEXT],
]  # fmt: skip


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_no_token_is_refused_with_the_same_words(text: object) -> None:
    with pytest.raises(Unauthenticated) as raised:
        access.read_credential(TOKEN, text)

    assert str(raised.value) == str(Unauthenticated())


def test_a_session_is_no_token_and_a_token_no_session() -> None:
    session, _ = access.write_credential(SESSION, b"x" * 8, b"y" * 32)

    assert access.read_credential(SESSION, session)
    for kind, text in ((TOKEN, session), (SESSION, TEXT)):
        with pytest.raises(Unauthenticated):
            access.read_credential(kind, text)


def test_nothing_is_proven_where_nothing_is_stored() -> None:
    assert access.proves(CREDENTIAL, CREDENTIAL.digest)
    assert not access.proves(CREDENTIAL, None)
    assert not access.proves(access.Credential("nobody", hashlib.sha256(b"").hexdigest()), None)


@pytest.mark.parametrize(("public", "secret"), [(7, 32), (9, 32), (8, 31), (8, 33), (0, 0)])
def test_too_little_chance_makes_no_token(public: int, secret: int) -> None:
    with pytest.raises(ValueError, match="random bytes"):
        access.write_credential(TOKEN, bytes(public), bytes(secret))


def test_an_actor_is_a_text_that_knows_its_request() -> None:
    actor = Actor("ann", "request-1")

    assert actor == "ann"
    assert f"{actor:>5}" == "  ann"
    assert actor.request_id == "request-1"
    assert Actor("bot").request_id is None
