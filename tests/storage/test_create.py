"""create: jobs come into being, all of a batch or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.domain.definition import DEFAULT_PRIORITY
from penstock.domain.errors import Conflict, IdempotencyConflict, NotFound
from penstock.domain.instant import DAY, SECOND, to_datetime
from penstock.domain.job import Created, UniformDrafts
from penstock.domain.states import ACTIVE, Status, Trigger
from penstock.storage.commands import control, feed, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, dump, query

pytestmark = pytest.mark.usefixtures("sound")


def test_a_job_that_is_due_now_is_queued(kit: Kit) -> None:
    draft = kit.draft(params='{"n": 1}')

    (created,) = kit.run(jobs.create([draft]))

    job = kit.job(draft.id)
    assert created == Created(draft.id, Status.QUEUED, created=True)
    assert (job.status, job.params_text, job.attempts, job.fence) == (Status.QUEUED, '{"n": 1}', 0, 0)
    assert job.created_at == job.run_at == job.queued_at == to_datetime(kit.now)
    assert (job.definition_version, job.priority, job.max_attempts) == (1, DEFAULT_PRIORITY, 3)


@pytest.mark.parametrize("how", ["due", "delay"])
def test_a_job_that_is_due_later_is_scheduled(kit: Kit, how: str) -> None:
    due = kit.now + 90 * SECOND

    draft = kit.draft(due=due) if how == "due" else kit.draft(delay=90 * SECOND)
    (created,) = kit.run(jobs.create([draft]))

    job = kit.job(created.job_id)
    assert created.status is job.status is Status.SCHEDULED
    assert (job.run_at, job.queued_at) == (to_datetime(due), None)
    assert kit.claim() == []


def test_a_time_that_has_passed_means_now(kit: Kit) -> None:
    (created,) = kit.run(jobs.create([kit.draft(due=kit.now - DAY)]))

    assert created.status is Status.QUEUED
    assert kit.job(created.job_id).run_at == to_datetime(kit.now)


def test_every_created_job_has_its_event(kit: Kit) -> None:
    made = [kit.create(), kit.create(delay=SECOND), kit.create(unique="one"), kit.create(idempotency_key="k")]

    assert [kit.events(job_id) for job_id in made] == [["job.enqueued"]] * 4


def test_the_answers_come_in_the_order_given(kit: Kit) -> None:
    known = kit.create(idempotency_key="known")
    held = kit.create(unique="held")
    drafts = [
        kit.draft(delay=SECOND),
        kit.draft(idempotency_key="known"),
        kit.draft(),
        kit.draft(unique="held"),
        kit.draft(idempotency_key="new"),
    ]

    answers = kit.run(jobs.create(drafts))

    ids = [drafts[0].id, known, drafts[2].id, held, drafts[4].id]
    assert [answer.job_id for answer in answers] == ids
    assert [answer.created for answer in answers] == [True, False, True, False, True]


def test_no_drafts_are_no_work(kit: Kit) -> None:
    before = dump(kit.store)

    assert kit.run(jobs.create([])) == []

    assert dump(kit.store) == before


def test_thousands_are_created_in_one_call(kit: Kit) -> None:
    drafts = [kit.draft(params=f'{{"n": {n}}}') for n in range(2500)]

    answers = kit.run(jobs.create(drafts))

    assert [answer.job_id for answer in answers] == [draft.id for draft in drafts]
    assert query(kit.store, "SELECT count(*) FROM {s}job JOIN {s}job_detail USING (id)") == [(2500,)]
    told = kit.run(feed.read(kit.run(feed.origin()), 3000)).events
    assert [(event.type, event.job_id) for event in told] == [("job.enqueued", draft.id) for draft in drafts]


def test_texts_come_back_as_they_were_given(kit: Kit) -> None:
    odd = '{"a": "\\"quoted\\" \\\\ {braces} NULL, ü 水 🚰 %s :now\\n"}'

    job_id = kit.create(params=odd, reference_type='a"b\\', reference_id="NULL", tags=("{}", '","', "ä"))

    job = kit.job(job_id)
    assert job.params_text == odd
    assert (job.reference_type, job.reference_id, job.tags) == ('a"b\\', "NULL", ("{}", '","', "ä"))


# Idempotency keys


def test_a_known_key_answers_with_the_job_that_has_it(kit: Kit) -> None:
    first = kit.create(idempotency_key="order-1")

    (again,) = kit.run(jobs.create([kit.draft(idempotency_key="order-1")]))

    assert again == Created(first, Status.QUEUED, created=False)
    assert kit.job(first).idempotency_key == "order-1"
    assert kit.events(first) == ["job.enqueued"]


def test_keys_of_two_scopes_are_two_keys(kit: Kit) -> None:
    ours = kit.create(idempotency_key="order-1", params_digest="one")

    drafts = [kit.draft(idempotency_key="order-1", params_digest="two", key_scope="others", unique="u") for _ in "ab"]
    theirs, again = kit.run(jobs.create(drafts))

    assert (theirs.created, again.created, again.job_id) == (True, False, theirs.job_id)
    assert kit.create(idempotency_key="order-1", params_digest="one") == ours
    assert kit.create(idempotency_key="order-1", params_digest="two", key_scope="others") == theirs.job_id


def test_a_known_key_tells_the_status_that_its_job_has_now(kit: Kit) -> None:
    claimed = kit.running(idempotency_key="order-1")
    kit.settle(claimed)

    (again,) = kit.run(jobs.create([kit.draft(idempotency_key="order-1")]))

    assert again == Created(claimed.job_id, Status.SUCCEEDED, created=False)


def test_other_parameters_under_a_known_key_are_refused_and_the_job_is_named(kit: Kit) -> None:
    first = kit.create(idempotency_key="order-1", params_digest="one")
    before = dump(kit.store)

    with pytest.raises(IdempotencyConflict) as caught:
        kit.run(jobs.create([kit.draft(idempotency_key="order-1", params_digest="other")]))

    assert caught.value.job_id == first
    assert dump(kit.store) == before


def test_the_same_key_of_another_definition_is_another_key(kit: Kit) -> None:
    first = kit.create("mail", idempotency_key="order-1")

    second = kit.create("print", idempotency_key="order-1")

    assert first != second


def test_a_key_lives_for_seven_days_and_no_longer(kit: Kit) -> None:
    claimed = kit.running(idempotency_key="order-1")
    kit.settle(claimed)

    kit.advance(7 * 86_400 - 1)
    assert kit.create(idempotency_key="order-1") == claimed.job_id
    kit.advance(1)
    other = kit.create(idempotency_key="order-1", params_digest="other")

    assert other != claimed.job_id
    assert kit.create(idempotency_key="order-1", params_digest="other") == other


def test_a_key_lives_as_long_as_its_draft_says(kit: Kit) -> None:
    claimed = kit.running(idempotency_key="order-1", idempotency_life=60 * SECOND)
    kit.settle(claimed)

    kit.advance(61)

    assert kit.create(idempotency_key="order-1") != claimed.job_id


@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_a_key_never_ends_while_its_job_is_in_flight(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status, idempotency_key="order-1")

    kit.advance(30 * 86_400)

    assert kit.create(idempotency_key="order-1") == job_id


def test_a_key_outlives_its_job(kit: Kit) -> None:
    claimed = kit.running(idempotency_key="order-1")
    kit.settle(claimed)
    assert kit.run(control.delete([claimed.job_id])) == [claimed.job_id]

    (again,) = kit.run(jobs.create([kit.draft(idempotency_key="order-1")]))

    assert again == Created(claimed.job_id, Status.STALE, created=False)
    assert query(kit.store, "SELECT count(*) FROM {s}job") == [(0,)]


def test_the_same_key_twice_in_one_batch_makes_one_job(kit: Kit) -> None:
    drafts = [kit.draft(idempotency_key="same"), kit.draft(), kit.draft(idempotency_key="same")]

    answers = kit.run(jobs.create(drafts))

    assert answers[0] == Created(drafts[0].id, Status.QUEUED, created=True)
    assert answers[2] == Created(drafts[0].id, Status.QUEUED, created=False)
    assert query(kit.store, "SELECT count(*) FROM {s}job") == [(2,)]


def test_the_same_key_twice_in_one_batch_with_other_parameters_makes_none(kit: Kit) -> None:
    drafts = [kit.draft(idempotency_key="same"), kit.draft(idempotency_key="same", params_digest="other")]
    before = dump(kit.store)

    with pytest.raises(IdempotencyConflict):
        kit.run(jobs.create(drafts))

    assert dump(kit.store) == before


def test_drafts_that_are_alike_become_a_job_each(kit: Kit) -> None:
    first, ids = kit.draft(priority=12), [kit.new_id() for _ in range(3)]
    drafts = UniformDrafts(first, ids, ['{"n":1}', '{"n":"\\"\\\\,{}"}', "{}"])

    answers = kit.run(jobs.create(drafts))

    assert answers == [Created(job_id, Status.QUEUED, created=True) for job_id in ids]
    made = [kit.job(job_id) for job_id in ids]
    assert [job.params_text for job in made] == list(drafts.params)
    assert {job.priority for job in made} == {12}
    assert kit.run(jobs.create(drafts)) == answers


def test_of_drafts_that_are_alike_some_may_be_there_already(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(4)]
    kit.run(jobs.create(drafts[1:3]))

    answers = kit.run(jobs.create(drafts))

    assert answers == [Created(draft.id, Status.QUEUED, created=True) for draft in drafts]
    assert query(kit.store, "SELECT count(*) FROM {s}job") == [(4,)]


def test_drafts_that_are_alike_share_their_key_as_any_others_do(kit: Kit) -> None:
    ids = [kit.new_id() for _ in range(3)]

    answers = kit.run(jobs.create(UniformDrafts(kit.draft(idempotency_key="same"), ids, ["{}"] * 3)))

    assert [each.created for each in answers] == [True, False, False]
    assert {each.job_id for each in answers} == {ids[0]}


def test_keys_are_given_back_when_the_batch_fails(kit: Kit) -> None:
    kit.create(idempotency_key="taken", params_digest="one")

    with pytest.raises(IdempotencyConflict):
        kit.run(jobs.create([kit.draft(idempotency_key="free"), kit.draft(idempotency_key="taken")]))
    draft = kit.draft(idempotency_key="free", params_digest="anything")

    assert kit.run(jobs.create([draft])) == [Created(draft.id, Status.QUEUED, created=True)]


def test_a_key_whose_draft_was_answered_by_a_unique_job_stands_for_that_job(kit: Kit) -> None:
    holder = kit.create(unique="one")
    assert kit.create(unique="one", idempotency_key="order-1") == holder

    (again,) = kit.run(jobs.create([kit.draft(unique="one", idempotency_key="order-1")]))

    assert again == Created(holder, Status.QUEUED, created=False)


def test_a_key_whose_job_is_gone_stands_for_the_unique_job_that_answers_when_its_draft_comes_again(kit: Kit) -> None:
    draft = kit.draft(unique="one", idempotency_key="order-1")
    kit.run(jobs.create([draft]))
    kit.run(control.cancel([draft.id]))
    kit.run(control.delete([draft.id]))
    holder = kit.create(unique="one")
    kit.run(jobs.create([draft]))

    (again,) = kit.run(jobs.create([kit.draft(idempotency_key="order-1")]))

    assert again == Created(holder, Status.QUEUED, created=False)


# Unique while active


@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_an_active_job_answers_for_others_with_its_unique_key(kit: Kit, status: Status) -> None:
    holder = kit.job_in(status, unique="one")

    (answer,) = kit.run(jobs.create([kit.draft(unique="one")]))

    assert answer == Created(holder, status, created=False)
    assert kit.job(holder).unique == "one"


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.STALE])
def test_an_ended_job_holds_its_unique_key_no_longer(kit: Kit, status: Status) -> None:
    ended = kit.job_in(status, unique="one")

    (answer,) = kit.run(jobs.create([kit.draft(unique="one")]))

    assert answer.created
    assert answer.job_id != ended


def test_the_same_unique_key_of_another_definition_is_another_key(kit: Kit) -> None:
    assert kit.create("mail", unique="one") != kit.create("print", unique="one")


def test_the_same_unique_key_twice_in_one_batch_makes_one_job(kit: Kit) -> None:
    drafts = [kit.draft(unique="one"), kit.draft(unique="one"), kit.draft(unique="two")]

    answers = kit.run(jobs.create(drafts))

    assert [answer.job_id for answer in answers] == [drafts[0].id, drafts[0].id, drafts[2].id]
    assert [answer.created for answer in answers] == [True, False, True]


def test_a_retry_keeps_its_unique_key(kit: Kit) -> None:
    claimed = kit.running(unique="one")
    kit.settle(claimed, Trigger.FAIL)

    assert kit.create(unique="one") == claimed.job_id


# The answer to an earlier try was lost


def test_a_draft_whose_id_exists_answers_as_created(kit: Kit) -> None:
    draft = kit.draft(tags=("a",), unique="one", idempotency_key="k", concurrency_key="c")
    first = kit.run(jobs.create([draft]))
    before = dump(kit.store)

    again = kit.run(jobs.create([draft]))

    assert again == first == [Created(draft.id, Status.QUEUED, created=True)]
    assert dump(kit.store) == before


def test_a_batch_that_is_there_already_answers_as_created(kit: Kit) -> None:
    drafts = [kit.draft(params=f'{{"n": {n}}}') for n in range(20)]
    first = kit.run(jobs.create(drafts))
    before = dump(kit.store)

    assert kit.run(jobs.create(drafts)) == first

    assert dump(kit.store) == before


def test_a_repeated_draft_tells_the_status_that_its_job_has_now(kit: Kit) -> None:
    draft = kit.draft()
    kit.run(jobs.create([draft]))
    (claimed,) = kit.claim()
    kit.settle(claimed)

    assert kit.run(jobs.create([draft])) == [Created(draft.id, Status.SUCCEEDED, created=True)]


# Refused


def test_a_job_of_an_unknown_definition_is_refused(kit: Kit) -> None:
    draft = replace(kit.draft(), lane=4711, definition="nobody")

    with pytest.raises(NotFound, match="nobody"):
        kit.run(jobs.create([draft]))


def test_a_job_of_a_disabled_definition_is_refused(kit: Kit) -> None:
    kit.define("mail")
    change(kit.store, "UPDATE {s}control SET enabled = false WHERE key = 'mail'")

    with pytest.raises(Conflict, match="mail"):
        kit.create("mail")

    change(kit.store, "UPDATE {s}control SET enabled = true WHERE key = 'mail'")
    assert kit.status(kit.create("mail")) is Status.QUEUED


@pytest.mark.parametrize("place", [0, 5, 9])
def test_a_batch_is_created_whole_or_not_at_all(kit: Kit, place: int) -> None:
    drafts = [kit.draft(unique=f"u{n}", idempotency_key=f"k{n}", concurrency_key="c", tags=("t",)) for n in range(10)]
    drafts[place] = replace(drafts[place], lane=4711)
    before = dump(kit.store)

    with pytest.raises(NotFound):
        kit.run(jobs.create(drafts))

    assert dump(kit.store) == before


# What comes with a job


def test_a_job_can_be_found_by_each_of_its_tags(kit: Kit) -> None:
    draft = kit.draft(tags=("red", "blue", "red"))
    other = kit.draft(tags=("blue",))

    kit.run(jobs.create([draft, other]))

    assert kit.job(draft.id).tags == ("red", "blue", "red")
    found = {(tag, str(job_id)) for tag, job_id in query(kit.store, "SELECT tag, id FROM {s}job_tag")}
    assert found == {("red", draft.id), ("blue", draft.id), ("blue", other.id)}


def test_a_job_keeps_what_it_is_linked_to(kit: Kit) -> None:
    parent = kit.create()
    due = kit.now + SECOND

    job = kit.job(
        kit.create(
            reference_type="order",
            reference_id="17",
            parent=parent,
            rerun_of=parent,
            schedule="nightly",
            scheduled_for=due,
            webhook_url="https://example.com/hook",
            traceparent="00-1-2-01",
            actor="anna",
        )
    )

    assert (job.reference_type, job.reference_id, job.parent_id, job.rerun_of) == ("order", "17", parent, parent)
    assert (job.schedule_id, job.scheduled_for) == ("nightly", to_datetime(due))
    assert (job.webhook_url, job.actor) == ("https://example.com/hook", "anna")


def test_versions_of_a_definition_share_its_unique_and_idempotency_keys(kit: Kit) -> None:
    first = kit.create(unique="one", idempotency_key="k")
    kit.define(version=2)

    assert kit.create(unique="one") == first
    assert kit.create(idempotency_key="k") == first


def test_of_drafts_with_the_same_unique_key_the_first_is_made(kit: Kit) -> None:
    kit.define("work")
    kit.define("other")
    drafts = [kit.draft(definition, unique="only") for definition in ("other", "work", "work", "work")]
    last = replace(drafts[1], id=f"00000000-0000-7000-8000-{0:012x}")

    answers = kit.run(jobs.create([*drafts, last]))

    assert [each.created for each in answers] == [True, True, False, False, False]
    assert {each.job_id for each in answers[1:]} == {drafts[1].id}
