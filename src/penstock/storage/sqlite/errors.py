"""Translation of SQLite's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from penstock.domain.errors import InvalidInput, PenstockError, StoreError, StoreFull, StoreUnavailable
from penstock.storage import INPUT_HINT


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise our errors instead of SQLite's."""
    try:
        yield
    except PenstockError:
        raise
    except apsw.BusyError as error:
        raise StoreUnavailable(
            f"{place} was kept locked by another writer for too long.",
            hint="Find the process that left a transaction open on the file.",
        ) from error
    except apsw.FullError as error:
        raise StoreFull(f"The disk that holds {place} is full; nothing was written.", hint="Make room.") from error
    except apsw.CantOpenError as error:
        raise StoreUnavailable(
            f"{place} cannot be opened: {error}.", hint="Does its folder exist, and may we write there?"
        ) from error
    except apsw.ReadOnlyError as error:
        raise StoreUnavailable(
            f"{place} cannot be written to: {error}.", hint="Check the owner of the file and its folder."
        ) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreError(
            f"{place} is no database of ours, or damaged: {error}.",
            hint="Restore a backup, or name another file.",
        ) from error
    except apsw.IOError as error:
        raise StoreError(f"The disk that holds {place} failed: {error}.") from error
    except (OverflowError, UnicodeError) as error:
        raise InvalidInput(f"{place} cannot take what was given: {error}.", hint=INPUT_HINT) from error
    except apsw.Error as error:
        raise StoreError(f"{place} refused: {error}.") from error
