"""Translation of PostgreSQL's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from penstock.domain.errors import (
    Hint,
    InvalidInput,
    PenstockError,
    SchemaError,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from penstock.storage import INPUT_HINT, POOLER_HINT

MIGRATE = Hint(
    "Migrate it: Penstock(url, migrate=True).",
    cli="Migrate it: `penstock db migrate`.",
    http="The operator of this server must migrate it.",
)
RIGHTS = Hint(
    "Use migrate=True as the schema's owner; other roles need the grants of docs/guide/migrations.md.",
    cli="Run `penstock db migrate` as the schema's owner; other roles need the grants of docs/guide/migrations.md.",
    http="The operator of this server must grant its role the rights that docs/guide/migrations.md names.",
)

_FULL = (errors.DiskFull, errors.OutOfMemory)
_PREPARED = (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName)
_SCHEMA = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)


def is_serialization(error: Exception) -> bool:
    """Return whether the transaction must run again; it then sees the job that took the unique key first."""
    if isinstance(error, errors.UniqueViolation):
        return error.diag.constraint_name == "job_unique"
    return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)


def connection_broke(error: Exception) -> bool:
    """Return whether the connection or the server is gone, or became read-only."""
    if isinstance(error, errors.QueryCanceled | errors.DiskFull | PoolTimeout):
        return False
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | errors.ReadOnlySqlTransaction)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise our errors instead of PostgreSQL's."""
    try:
        yield
    except PenstockError:
        raise
    except _FULL as error:
        raise StoreFull(f"{place} has no room left; nothing was written.", hint="Make room.") from error
    except _SCHEMA as error:
        raise SchemaError(f"{place} is not set up: {_first_line(error)}.", hint=MIGRATE) from error
    except _PREPARED as error:
        raise StoreError(
            f"{place} mixes up prepared statements: it is behind a pooler in transaction mode.",
            hint=POOLER_HINT,
        ) from error
    except errors.QueryCanceled as error:
        raise StoreUnavailable(f"{place} took longer than the statement deadline.") from error
    except PoolTimeout as error:
        raise StoreUnavailable(f"{place} could not be reached, or all connections were in use for too long.") from error
    except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        raise StoreUnavailable(f"{place} did not answer: {_first_line(error)}.") from error
    except (psycopg.DataError, UnicodeError) as error:
        raise InvalidInput(f"{place} cannot take what was given: {_first_line(error)}.", hint=INPUT_HINT) from error
    except errors.InsufficientPrivilege as error:
        raise StoreError(f"{place} refused: {_first_line(error)}.", hint=RIGHTS) from error
    except psycopg.Error as error:
        raise StoreError(f"{place} refused: {_first_line(error)}.") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
