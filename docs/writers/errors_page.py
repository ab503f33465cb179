"""The page of errors, from their tree."""

from __future__ import annotations

import inspect

from docs.writers.inspected import code, doc
from penstock.domain import errors

# What the class cannot say about itself: when a user meets it, and what to do then.
ADVICE = {
    "PenstockError": "The base class of all errors that penstock raises on purpose. `message` says what is wrong, "
    "`hint` what to do about it; the text of the error is both.",
    "InvalidInput": "A bad option, URL, id, filter or time. Change the call; trying it again gives the same answer.",
    "InvalidPayload": "The parameters do not fit the definition's JSON Schema, or are no JSON that both databases "
    "can keep: NaN, NUL characters, integers beyond 64 bits, more than 1 MiB, nesting deeper than 64.",
    "MalformedPayload": "A document with a syntax error, in another encoding than UTF-8, or with a byte order mark.",
    "InvalidDefinition": "Raised by `@app.job` while a module is loaded: a wrong option, a signature that cannot be "
    "kept as JSON by name, or a key and version that are defined twice.",
    "InvalidSchedule": "Raised where a schedule is declared, saved or changed.",
    "InvalidSignature": "Raised by `penstock.integrations.webhook_receiver.verify`. "
    "Answer the request with 401, and do nothing with it.",
    "NotFound": "`kind` and `name` say what was looked for: a job that never was or that retention has removed, or "
    "a definition that no process has registered.",
    "Conflict": "For example a job of a disabled definition, or a review that is decided already. `job_id` names "
    "the job that prevents it, if there is one.",
    "IdempotencyConflict": "Two different requests were given the same key. Read the job `job_id` to see which "
    "came first.",
    "RevisionConflict": "Read it again, apply the change to what is there now, and write once more.",
    "Unauthenticated": "The message is the same for a mistyped, unknown, revoked or expired token. "
    "See [access](../guide/access.md).",
    "Forbidden": "Use a token whose role may do this. See [access](../guide/access.md).",
    "LeaseLost": "Raised only for code that acts as a worker. Stop the attempt immediately: another worker may "
    "already run the job.",
    "JobFailed": "`status` says how the job ended: `failed` or `cancelled`. The job's `error` and `error_type` say "
    "why.",
    "WaitTimeout": "It is a `TimeoutError` too. The job is untouched: wait again, or come back later by its id.",
    "StoreError": "The database refused, or a disk failed. The cause is attached as `__cause__`.",
    "StoreUnavailable": "All safe repetitions have failed. When `enqueue` raises it, "
    "the job may exist or not: call again with the same idempotency key.",
    "StoreFull": "Make room. Nothing was written.",
    "SchemaError": "See [migrations](../guide/migrations.md).",
    "SchemaNewer": "A worker learns of it with a heartbeat. It claims nothing more, lets its jobs end and exits "
    "with code 11.",
    "FeedGone": "The reader was away for longer than events are kept. Read the state again, then continue from now.",
}


def write() -> str:
    members = [each for each in vars(errors).values() if inspect.isclass(each)]
    classes = [each for each in members if issubclass(each, errors.PenstockError)]
    names = {each.__name__ for each in classes}
    if names != ADVICE.keys():
        raise ValueError(f"errors and their advice differ: {sorted(names ^ ADVICE.keys())}")
    tree = doc(errors).partition("\n\n")[2]
    parts = [
        "# Errors",
        "The message of an error names the thing that is wrong; `hint`, where there is one, says what to do. "
        "All of them can be imported from `penstock`.",
        code(tree, "text"),
        *(_section(each) for each in classes),
    ]
    return "\n\n".join(parts)


def _section(error: type) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
    own = vars(error).get("__init__")
    extra = [] if own is None else [name for name in inspect.signature(own).parameters if name != "self"]
    attributes = ", ".join(f"`{name}`" for name in extra if name not in ("message", "hint"))
    lines = [f"## {error.__name__}", doc(error), ADVICE[error.__name__]]
    lines.append(f"Is a {bases}." + (f" Attributes: {attributes}." if attributes else ""))
    return "\n\n".join(lines)
