"""Where the processes of a SQLite file meet to wake each other, when their usual place is not safe."""

from __future__ import annotations

from penstock.domain.plan import Statement, Steps, reads, writes


@reads
def folder(user: int) -> Steps[str | None]:
    """The folder in which the processes of this user meet; None: it was never needed."""
    found = yield Statement("find_setting", {"name": _name(user)})
    return str(found[0][1]) if found else None


@writes
def keep_folder(user: int, path: str) -> Steps[None]:
    """Have the processes of this user meet in another folder."""
    yield Statement("save_setting", {"name": _name(user), "value": path, "by": "penstock", "revision": None})


def _name(user: int) -> str:
    return f"doorbell:{user}"
