"""Tokens, sessions, the buckets that all share, and the audit of all of them."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from penstock.domain.access import Actor, Role, Session, Token
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.instant import DAY, MINUTE, SECOND, to_datetime
from penstock.storage.commands import access, admin, control
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.conftest import Counts
from tests.storage.concurrency import Arena, another
from tests.storage.kit import START, Kit
from tests.storage.tables import check_soundness, dump, query

pytestmark = pytest.mark.usefixtures("sound")

DIGEST, OTHER = "a" * 64, "b" * 64


def create(kit: Kit, token_id: str = "one", role: Role = Role.ADMIN, **options: Any) -> Token:
    return kit.run(access.create_token(token_id, DIGEST, f"token {token_id}", role, **{"by": "ann", **options}))


def usable(kit: Kit, token_id: str = "one") -> bool:
    holder = kit.run(access.find_token(token_id))
    return holder is not None and holder.usable


def opens(kit: Kit, session_id: str = "s") -> bool:
    holder = kit.run(access.find_session(session_id))
    return holder is not None and holder.usable


def audited(kit: Kit) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.action, entry.target) for entry in kit.run(admin.audit())][::-1]


# Tokens


def test_a_token_is_kept_and_found_with_its_digest(kit: Kit) -> None:
    made = create(kit, life=DAY)

    holder = kit.run(access.find_token("one"))

    assert made == Token("one", "token one", Role.ADMIN, to_datetime(START), "ann", to_datetime(START + DAY))
    assert holder is not None
    assert (holder.token, holder.digest, holder.usable, holder.touch) == (made, DIGEST, True, True)
    assert kit.run(access.find_token("two")) is None


def test_tokens_are_listed_in_the_order_in_which_they_were_made(kit: Kit) -> None:
    for token_id in ("zoe", "bob", "ann"):
        create(kit, token_id)
        kit.advance(1)
    kit.run(access.revoke_token("bob", by="ann"))

    listed = kit.run(access.tokens())

    assert [(each.id, each.revoked_at is None) for each in listed] == [("zoe", True), ("bob", False), ("ann", True)]


def test_the_same_token_made_again_is_one_token_and_one_entry(kit: Kit) -> None:
    first = create(kit)
    kit.advance(5)

    assert create(kit, by="eve") == first
    assert audited(kit) == [("ann", "token.create", "one")]


def test_an_id_that_is_taken_is_refused(kit: Kit) -> None:
    create(kit)
    before = dump(kit.store)

    with pytest.raises(Conflict, match="a token 'one' already"):
        kit.run(access.create_token("one", OTHER, "mine", Role.SUPER_ADMIN, by="eve"))

    assert dump(kit.store) == before


def test_a_token_is_usable_until_it_expires(kit: Kit) -> None:
    create(kit, life=10 * SECOND)
    create(kit, "endless")
    kit.advance(9.999999)
    assert usable(kit)

    kit.advance(0.000001)

    assert not usable(kit)
    assert usable(kit, "endless")


def test_a_revoked_token_is_not_usable_and_stays_revoked_since_the_first_time(kit: Kit) -> None:
    create(kit)
    kit.advance(1)
    first = kit.run(access.revoke_token("one", by="eve"))
    kit.advance(1)

    again = kit.run(access.revoke_token("one", by="adam"))

    assert not usable(kit)
    assert first.revoked_at == to_datetime(START + SECOND)
    assert again == first
    assert audited(kit) == [("ann", "token.create", "one"), ("eve", "token.revoke", "one")]


def test_a_token_that_is_not_there_cannot_be_revoked(kit: Kit) -> None:
    with pytest.raises(NotFound, match="no token 'one'"):
        kit.run(access.revoke_token("one", by="eve"))

    assert audited(kit) == []


def test_only_tokens_that_may_be_used_are_counted(kit: Kit) -> None:
    assert kit.run(access.count_usable_tokens()) == 0
    create(kit, "good")
    create(kit, "short", life=SECOND)
    create(kit, "bad")
    assert kit.run(access.count_usable_tokens()) == 3

    kit.run(access.revoke_token("bad", by="ann"))
    kit.advance(1)

    assert kit.run(access.count_usable_tokens()) == 1


def test_the_last_use_is_written_once_a_minute(kit: Kit) -> None:
    create(kit)
    seen = []

    for _ in range(5):
        kit.run(access.touch_token("one"))
        holder = kit.run(access.find_token("one"))
        assert holder is not None
        assert not holder.touch
        seen.append(holder.token.last_used_at)
        kit.advance(29)

    minute, later = to_datetime(START), to_datetime(START + 87 * SECOND)
    assert seen == [minute, minute, minute, later, later]
    kit.advance(60)
    holder = kit.run(access.find_token("one"))
    assert holder is not None
    assert holder.touch


# Sessions


def test_a_session_leads_to_its_token_until_it_ends_by_itself(kit: Kit) -> None:
    token = create(kit)

    session = kit.run(access.create_session("s", "one", OTHER, MINUTE, by="ann"))

    assert session == Session("s", "one", to_datetime(START), to_datetime(START + MINUTE))
    holder = kit.run(access.find_session("s"))
    assert holder is not None
    assert (holder.digest, holder.token, holder.usable) == (OTHER, token, True)
    assert kit.run(access.find_session("t")) is None
    kit.advance(60)
    assert not opens(kit)


def test_a_session_does_not_outlive_its_token(kit: Kit) -> None:
    create(kit, life=10 * SECOND)

    session = kit.run(access.create_session("s", "one", OTHER, DAY, by="ann"))

    assert session.expires_at == to_datetime(START + 10 * SECOND)
    kit.advance(10)
    assert not opens(kit)


def test_sessions_end_when_their_token_is_revoked(kit: Kit) -> None:
    create(kit)
    create(kit, "two")
    for session_id, token_id in (("s", "one"), ("t", "one"), ("u", "two")):
        kit.run(access.create_session(session_id, token_id, OTHER, DAY, by="ann"))

    kit.run(access.revoke_token("one", by="eve"))

    assert [opens(kit, each) for each in "stu"] == [False, False, True]
    (entry,) = kit.run(admin.audit(action="token.revoke"))
    assert json.loads(entry.after or "")["sessionsEnded"] == 2


@pytest.mark.parametrize("case", ["unknown", "revoked", "expired"])
def test_a_token_that_may_not_be_used_begins_no_session(kit: Kit, case: str) -> None:
    create(kit, life=SECOND)
    create(kit, "bad")
    kit.run(access.revoke_token("bad", by="ann"))
    kit.advance(1)
    before = dump(kit.store)

    token_id = {"unknown": "nobody", "revoked": "bad", "expired": "one"}[case]
    with pytest.raises(NotFound):
        kit.run(access.create_session("s", token_id, OTHER, DAY, by="ann"))

    assert dump(kit.store) == before


def test_a_session_begun_again_is_one_session(kit: Kit) -> None:
    create(kit)
    first = kit.run(access.create_session("s", "one", OTHER, DAY, by="ann"))
    kit.advance(1)

    assert kit.run(access.create_session("s", "one", OTHER, DAY, by="ann")) == first
    assert [action for _, action, _ in audited(kit)] == ["token.create", "session.create"]


def test_a_session_that_was_ended_is_gone(kit: Kit) -> None:
    create(kit)
    kit.run(access.create_session("s", "one", OTHER, DAY, by="ann"))

    assert kit.run(access.end_session("s", by="eve"))
    assert not kit.run(access.end_session("s", by="eve"))

    assert not opens(kit)
    assert audited(kit)[1:] == [("ann", "session.create", "s"), ("eve", "session.end", "s")]


def test_a_session_and_the_end_of_its_token_at_the_same_moment_leave_no_session(
    shared_store: Any, counts: Counts
) -> None:
    here = Kit(shared_store)
    with another(here) as there, Arena(2) as arena:
        for n in range(counts(ci=20, soak=500)):
            create(here, f"t{n}")
            opened, _ = arena.together(
                partial(here.run, access.create_session(f"s{n}", f"t{n}", OTHER, DAY, by="ann")),
                partial(there.run, access.revoke_token(f"t{n}", by="eve")),
            )
            assert isinstance(opened, Session | NotFound), opened
            assert not opens(here, f"s{n}")
        check_soundness(shared_store)


# Retention


def test_sessions_that_have_ended_and_tokens_long_dead_are_tidied_away(kit: Kit) -> None:
    create(kit, "good")
    create(kit, "revoked")
    create(kit, "expired", life=SECOND)
    kit.run(access.create_session("short", "good", OTHER, SECOND, by="ann"))
    kit.run(access.create_session("long", "good", OTHER, 10 * DAY, by="ann"))
    kit.run(access.revoke_token("revoked", by="ann"))
    assert kit.run(admin.tidy(DAY)) == 0

    kit.advance(1)
    assert kit.run(admin.tidy(DAY)) == 1
    assert query(kit.store, "SELECT id FROM {s}session") == [("long",)]
    assert len(kit.run(access.tokens())) == 3

    kit.advance(86_401)
    assert kit.run(admin.tidy(DAY)) == 2
    assert [each.id for each in kit.run(access.tokens())] == ["good"]


def test_a_store_needs_a_token_from_its_first_one_on(kit: Kit) -> None:
    assert not kit.run(access.needs_token())

    create(kit)

    assert kit.run(access.needs_token())


def test_no_end_of_a_token_opens_the_store_again(kit: Kit) -> None:
    create(kit, "revoked")
    create(kit, "expired", life=SECOND)
    kit.run(access.revoke_token("revoked", by="ann"))
    kit.advance(1)
    assert kit.run(access.needs_token())

    kit.advance(2 * 86_400)
    assert kit.run(admin.tidy(DAY)) == 2

    assert kit.run(access.tokens()) == []
    assert kit.run(access.needs_token())


def test_a_token_that_was_refused_closes_nothing(kit: Kit) -> None:
    create(kit)
    kit.run(access.revoke_token("one", by="ann"))
    kit.run(access.open_access(by="ann"))

    with pytest.raises(Conflict):
        kit.run(access.create_token("one", OTHER, "mine", Role.ADMIN, by="eve"))

    assert not kit.run(access.needs_token())


def test_an_operator_opens_a_store_that_has_no_valid_token_until_the_next_one(kit: Kit) -> None:
    create(kit)
    kit.run(access.revoke_token("one", by="ann"))

    assert kit.run(access.open_access(by="eve"))

    assert not kit.run(access.needs_token())
    assert not kit.run(access.open_access(by="eve")), "it was open"
    assert audited(kit)[2:] == [("eve", "access.open", "access")]
    create(kit, "two")
    assert kit.run(access.needs_token())


def test_a_store_with_a_valid_token_is_not_opened(kit: Kit) -> None:
    create(kit)
    before = dump(kit.store)

    with pytest.raises(Conflict, match=r"1 token\(s\) are valid"):
        kit.run(access.open_access(by="eve"))

    assert dump(kit.store) == before


def test_a_token_made_while_an_operator_opens_the_store_closes_it(store: Any, counts: Counts) -> None:
    kit = Kit(store)
    with Arena(2) as arena, another(kit) if store.dialect == "postgres" else nullcontext(kit) as other:
        for n in range(counts(ci=20, soak=500)):
            create(kit, f"old {n}")
            kit.run(access.revoke_token(f"old {n}", by="ann"))

            arena.together(partial(create, kit, f"new {n}"), partial(other.run, access.open_access(by="eve")))

            assert kit.run(access.needs_token())
            kit.run(access.revoke_token(f"new {n}", by="ann"))


# The audit


def test_the_audit_is_read_by_actor_action_and_target_in_pages(kit: Kit) -> None:
    kit.define("work")
    for n, actor in enumerate(("ann", "eve", "ann", "eve", "ann")):
        kit.run(control.enable("work", bool(n % 2), by=actor))
    create(kit, by="ann")

    def told(**which: Any) -> list[tuple[str, str, str]]:
        return [(entry.actor, entry.action, entry.target) for entry in kit.run(admin.audit(**which))]

    disable, token = ("ann", "definition.disable", "work"), ("ann", "token.create", "one")
    assert told(actor="ann") == [token, disable, disable, disable]
    assert told(action="definition.enable") == [("eve", "definition.enable", "work")] * 2
    assert told(target="one") == [token]
    assert told(actor="eve", action="token.create") == []
    assert told(actor="ann", action="definition.disable", target="work") == [disable] * 3
    second = kit.run(admin.audit(actor="ann", limit=2))[-1]
    assert told(actor="ann", before=second.seq, limit=1) == [disable]
    assert told(actor="ann", before=second.seq) == [disable, disable]


def test_an_actor_brings_the_id_of_its_request(kit: Kit) -> None:
    kit.define("work")
    actor = Actor("ann", "request-7")
    job_ids = [kit.create(), kit.create()]

    kit.run(control.cancel(job_ids, by=actor))
    kit.run(control.enable("work", False, by=actor))
    kit.run(admin.put_setting("worker", "{}", by=actor))
    create(kit, by=actor)
    kit.run(access.revoke_token("one", by="plain"))

    entries = kit.run(admin.audit())
    assert [(entry.actor, entry.request_id) for entry in entries] == [("plain", None), *[("ann", "request-7")] * 5]
    assert kit.run(admin.settings())["worker"].updated_by == "ann"


# Buckets


def taken(kit: Kit, times: int, count: int = 3, period: int = MINUTE, name: str = "api", n: int = 1) -> int:
    """How many of so many who ask are granted what they ask for."""
    return sum(kit.run(access.take(name, count, period, n)) is None for _ in range(times))


def test_a_bucket_gives_what_it_holds_and_says_when_to_ask_again(kit: Kit) -> None:
    assert taken(kit, 3) == 3

    assert kit.run(access.take("api", 3, MINUTE)) == 20 * SECOND
    kit.advance(19.999999)
    assert kit.run(access.take("api", 3, MINUTE)) == 1
    kit.advance(0.000001)
    assert kit.run(access.take("api", 3, MINUTE)) is None
    assert kit.run(access.take("api", 3, MINUTE, 2)) == 40 * SECOND


def test_nothing_is_taken_from_a_bucket_when_it_is_refused(kit: Kit) -> None:
    taken(kit, 2)
    before = dump(kit.store)

    assert kit.run(access.take("api", 3, MINUTE, 2)) == 20 * SECOND
    assert dump(kit.store) == before
    assert taken(kit, 2) == 1


def test_a_bucket_that_was_left_alone_holds_no_more_than_it_can(kit: Kit) -> None:
    taken(kit, 3)
    kit.advance(86_400)

    assert taken(kit, 10) == 3


def test_buckets_of_other_names_or_other_rates_are_other_buckets(kit: Kit) -> None:
    assert taken(kit, 9) == 3
    assert taken(kit, 9, name="other") == 3
    assert taken(kit, 9, count=4) == 4
    assert taken(kit, 9, period=MINUTE + 1) == 3


@pytest.mark.parametrize(("count", "period"), [(1, 1), (7, SECOND), (999, SECOND), (7000, SECOND), (3, 10), (10, 10)])
def test_a_rate_that_does_not_divide_evenly_is_kept_exactly(kit: Kit, count: int, period: int) -> None:
    assert kit.run(access.take("api", count, period, count)) is None
    wait = kit.run(access.take("api", count, period))

    assert wait is not None
    assert wait * count >= period, "never faster than the rate"
    assert (wait - 1) * count < period, "nor slower by more than a microsecond"
    kit.now += wait
    assert kit.run(access.take("api", count, period)) is None
    assert kit.run(access.take("api", count, period)) == wait


@pytest.mark.parametrize(
    ("count", "period", "n"), [(3, MINUTE, 4), (3, MINUTE, 0), (3, MINUTE, -1), (0, 1, 0), (5, 4, 1)]
)
def test_what_a_bucket_can_never_give_is_refused(kit: Kit, count: int, period: int, n: int) -> None:
    with pytest.raises(InvalidInput, match="cannot be taken"):
        kit.run(access.take("api", count, period, n))


def test_a_full_bucket_is_tidied_away_and_is_as_good_as_before(kit: Kit) -> None:
    taken(kit, 3)
    assert kit.run(admin.tidy(DAY)) == 0
    kit.advance(60)

    assert kit.run(admin.tidy(DAY)) == 1
    assert taken(kit, 9) == 3


def test_threads_that_take_at_once_get_exactly_what_there_is(store: Any, counts: Counts) -> None:
    kit = Kit(store)
    with Arena(4) as arena:
        for n in range(counts(ci=15, soak=300)):
            act = partial(taken, kit, 5, count=7, name=f"round {n}")
            assert sum(arena.together(act, act, act, act)) == 7


@pytest.fixture
def place(shared_store: Any) -> Iterator[tuple[str, str]]:
    """What another process needs to open the store."""
    if shared_store.dialect == "postgres":
        yield shared_store.url, shared_store.schema
    else:
        yield "", shared_store.path


def test_processes_that_take_at_once_get_exactly_what_there_is(place: tuple[str, str], shared_store: Any) -> None:
    context = multiprocessing.get_context("spawn")
    granted, start = context.Queue(), context.Barrier(3)
    processes = [context.Process(target=_take_many, args=(*place, start, granted)) for _ in range(3)]
    for process in processes:
        process.start()

    shares = [granted.get(timeout=60) for _ in processes]

    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    total: Counter[str] = sum(map(Counter, shares), Counter())
    assert total == dict.fromkeys(_NAMES, 10)
    assert sum(1 for share in shares if share) > 1, "more than one got something"


_NAMES = [f"bucket {n}" for n in range(12)]


def _take_many(url: str, place: str, start: Any, granted: Any) -> None:
    """Ask for more than there is, of every bucket; the time stands still, so nothing comes back."""
    store: Any = PostgresStore(url, schema=place) if url else SqliteStore(place)
    store.open()
    share: Counter[str] = Counter()
    for name in _NAMES:
        start.wait(60)
        for _ in range(10):
            share[name] += store.run(access.take(name, 10, MINUTE), now=START) is None
    granted.put(+share)
    store.close()
