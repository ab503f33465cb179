"""The page of event types."""

from __future__ import annotations

from docs.writers.inspected import FieldFacts, doc, fields_of, table
from penstock.domain import event

# Each type with when it is written and which keys its `data` may have.
SENTENCES = {
    "job.enqueued": (
        "A job was created, due now or later; or an ended one was queued again by hand.",
        "generation, by",
    ),
    "job.started": ("An attempt began.", ""),
    "job.progress": ("An attempt reported its progress.", "percent, message, phase"),
    "job.phase.completed": ("A phase ended and its result is kept.", "phase"),
    "job.succeeded": ("The job succeeded.", "note, by"),
    "job.failed": (
        "The job failed: no attempts left, an error that is not retried, too many losses, or rejected.",
        "error, errorType, note, by",
    ),
    "job.retrying": ("An attempt failed and another one will follow.", "error, errorType, delaySeconds"),
    "job.snoozed": ("The handler asked to be run later; the attempt does not count.", "delaySeconds"),
    "job.review_needed": ("The job waits for a person.", "note"),
    "job.approved": ("A person approved the job.", "note, by"),
    "job.rejected": ("A person rejected the job; it has failed.", "note, by"),
    "job.cancelling": ("A running job was asked to stop.", "by"),
    "job.cancelled": ("The job was cancelled.", "error, errorType, delaySeconds, note, by"),
    "job.lost": (
        "The worker's lease ended in the middle of an attempt; another one will follow.",
        "error, errorType, delaySeconds",
    ),
    "job.released": ("An attempt was returned to the queue before it had any effect; it does not count.", ""),
    "job.rescheduled": ("The time or priority of a waiting job was changed.", "runAt, priority, by"),
    "job.stale": ("Retention made the job stale.", ""),
    "job.deleted": ("The job and all its data were deleted; this event stays.", "definitionKey, status"),
    "job.pruned": ("The attempts of the job up to the named one were deleted, with their logs.", "attempts"),
    "job.webhook.delivered": (
        "A webhook about the job has reached its receiver.",
        "webhookId, endpoint, type, tries, statusCode",
    ),
    "job.webhook.failed": (
        "A webhook about the job failed and is not tried again.",
        "webhookId, endpoint, type, tries, statusCode, error",
    ),
    "schedule.skipped": (
        "A tick made no job, because an earlier one was unfinished.",
        "scheduledFor, passedOver, overlap",
    ),
    "schedule.missed": ("A tick was skipped because it was too late or fell into a pause.", "scheduledFor, passedOver"),
    "worker.started": ("A worker registered.", ""),
    "worker.stopped": ("A worker stopped.", ""),
    "worker.lost": ("A worker's lease ended, and its jobs were rescued.", ""),
    "alert.raised": (
        "An alert began; the subject is its id.",
        "kind, subject, message, severity, since",
    ),
    "alert.cleared": ("An alert ended.", "kind, subject, message, severity, since"),
}


def write() -> str:
    if SENTENCES.keys() != set(event.TYPES):
        raise ValueError(f"event types and their sentences differ: {sorted(SENTENCES.keys() ^ set(event.TYPES))}")
    types = table(("type", "what happened", "keys of `data`"), (_row(each) for each in SENTENCES))
    facts = table(
        ("field", "type", "meaning"),
        (_fact(each) for each in fields_of(event.Event)),
    )
    return "\n\n".join(
        [
            "# Events",
            "An event is a row that says what happened. It is written in the transaction of the change itself, so "
            "there is no event without its change and no change without its event. Handlers may add types of their "
            "own.",
            "A reader takes the whole feed by a cursor, or the events of one job in their order: see `app.on` and "
            "`app.events` in the [guide](../guide/events.md), and the verbs of the store's "
            "[feed port](protocol.md#feedport).",
            "## Types",
            types,
            "## One event",
            facts,
            "`data` is the text of a JSON object, or nothing; times in it are ISO 8601.",
            "`attempt`, `duration`, `source`, `schedule` and `expression` are not stored with the event. They are "
            "looked up when it is read, and are null when the attempt, the job or the schedule is gone. Over HTTP and "
            "in webhooks the last two are called `scheduleId` and `scheduleExpression`.",
        ]
    )


def _row(name: str) -> tuple[str, str, str]:
    sentence, keys = SENTENCES[name]
    return f"`{name}`", sentence, ", ".join(f"`{key}`" for key in keys.split(", ")) if keys else ""


def _fact(field: FieldFacts) -> tuple[str, str, str]:
    """A field as it is read: what is stored as text is a value."""
    if field.name == "data_text":
        return "`data`", "`JsonObject`", doc(event.Event.data)
    return f"`{field.name}`", f"`{field.type}`", field.note
