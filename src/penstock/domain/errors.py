"""Every error penstock raises, as one tree.

PenstockError
├── InvalidInput            what was given cannot be used; nothing was written
│   ├── InvalidPayload      parameters or a result that are not the JSON we keep
│   │   └── MalformedPayload   they are not JSON at all
│   ├── InvalidDefinition   a definition or one of its options is wrong
│   └── InvalidSchedule     a schedule or its expression is wrong
├── NotFound                the named object does not exist
├── Conflict                the object exists, but not in a state that allows this
│   ├── IdempotencyConflict the key was used before with other parameters
│   └── RevisionConflict    it was changed since it was read
├── Unauthenticated         the credential is missing or not valid
├── Forbidden               the role does not allow this
├── InvalidSignature        a webhook that was not signed with a known secret, or too long ago
├── LeaseLost               the attempt or the worker no longer owns what it writes to
├── JobFailed               `result()` of a job that did not succeed
├── WaitTimeout             `wait()` ended before the job did
└── StoreError              the database cannot do it
    ├── StoreUnavailable    it did not answer; the same call may be made again
    ├── StoreFull           there is no room left; nothing was written
    ├── SchemaError         its schema is missing, too old or changed by hand
    │   └── SchemaNewer     a newer penstock has migrated it: this one stops working on it
    └── FeedGone            events after this cursor were deleted already: take a snapshot again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Reader = Literal["python", "http", "cli"]


class Hint(str):
    """A hint with one wording for Python, one for HTTP and one for the command line."""

    cli: str
    http: str

    def __new__(cls, python: str, *, cli: str, http: str) -> Hint:
        made = super().__new__(cls, python)
        made.cli = cli
        made.http = http
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (str(self), self.cli, self.http)


def hint_for(reader: Reader, hint: str) -> str:
    """Return the wording of a hint for a reader; a plain text is the same for all."""
    if not isinstance(hint, Hint):
        return hint
    return {"python": str(hint), "http": hint.http, "cli": hint.cli}[reader]


def _remade(python: str, cli: str, http: str) -> Hint:
    return Hint(python, cli=cli, http=http)


class PenstockError(Exception):
    """The base of all errors of penstock; `hint` says what to do."""

    code: str = "failed"
    """The stable name of its kind, the same in the API, on the command line and here."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip() if hint else message)
        self.message = message
        self.hint = hint


class InvalidInput(PenstockError):
    """What was given cannot be used; nothing was written."""

    code = "invalid_request"


class InvalidPayload(InvalidInput):
    """Parameters or a result that are not the JSON we keep; `path` is a JSON pointer."""

    code = "invalid_params"

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class MalformedPayload(InvalidPayload):
    """What was given is not JSON at all, or not in UTF-8."""

    code = "malformed"


class InvalidDefinition(InvalidInput):
    """A definition or one of its options is wrong."""


class InvalidSchedule(InvalidInput):
    """A schedule or its expression is wrong."""

    code = "invalid_schedule"


class NotFound(PenstockError):
    """The named object does not exist."""

    code = "not_found"

    def __init__(self, kind: str, name: str, *, hint: str = "") -> None:
        super().__init__(f"There is no {kind} {name!r}.", hint=hint)
        self.kind = kind
        self.name = name


class Conflict(PenstockError):
    """The object exists, but not in a state that allows this."""

    code = "conflict"

    def __init__(self, message: str, *, job_id: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.job_id = job_id


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with other parameters; `job_id` is the job that has it."""

    code = "idempotency_conflict"


class RevisionConflict(Conflict):
    """It was changed since it was read."""

    code = "revision_conflict"


class Unauthenticated(PenstockError):
    """The credential is missing or not valid; the message never says why."""

    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "The token is missing or not valid.",
            hint=Hint(
                "Create one: app.create_token(name, role).",
                cli="Create one: `penstock tokens create NAME --role ROLE`.",
                http="Send the header Authorization: Bearer pst_…; an operator creates tokens with POST /v1/tokens.",
            ),
        )


class Forbidden(PenstockError):
    """The caller is known, but its role does not allow this."""

    code = "forbidden"


class InvalidSignature(PenstockError):
    """A webhook that was not signed with a known secret, or too long ago."""


class LeaseLost(PenstockError):
    """The attempt or the worker no longer owns what it writes to; nothing was written."""

    def __init__(self, message: str, *, job_id: str | None = None, fence: int | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.fence = fence


class JobFailed(PenstockError):
    """The job whose result was asked for did not succeed."""

    def __init__(self, message: str, *, job_id: str, status: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.job_id = job_id
        self.status = status


class WaitTimeout(PenstockError, TimeoutError):
    """The time given to `wait()` ended before the job did; the job continues."""

    code = "timed_out"


class StoreError(PenstockError):
    """The database cannot do it."""

    code = "unavailable"


class StoreUnavailable(StoreError):
    """The database did not answer; the same call may be made again."""


class StoreFull(StoreError):
    """There is no room left; nothing was written."""

    code = "store_full"


class SchemaError(StoreError):
    """The database's schema is missing, too old, too new or was changed by hand."""


class SchemaNewer(SchemaError):
    """A newer penstock has migrated the database; this one must not write to it."""

    code = "schema_newer"

    def __init__(self, place: str, version: int, known: int) -> None:
        super().__init__(
            f"{place} has schema version {version}, this penstock knows {known}.",
            hint="Use the newer penstock that migrated it.",
        )


class FeedGone(StoreError):
    """Events after this cursor were deleted already; take a snapshot and begin again."""

    code = "feed_gone"


for _error in [each for each in globals().values() if isinstance(each, type) and issubclass(each, PenstockError)]:
    # Users import them from penstock: tracebacks and stored errors show that name.
    _error.__module__ = "penstock"
del _error


def refuse_unknown(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """Refuse names that are not known, and suggest the nearest known one."""
    # Few processes need it, and all import the errors.
    from difflib import get_close_matches

    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
            raise InvalidInput(f"{name!r} is not {what}.", hint=hint)
