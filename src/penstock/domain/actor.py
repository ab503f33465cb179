"""Who did something."""

from __future__ import annotations


class Actor(str):
    """A name, as it stands in the audit and in events, that knows the request in which it acts.

    It can be given wherever `by` is asked for.
    """

    __slots__ = ("request_id",)

    request_id: str | None

    def __new__(cls, name: str, request_id: str | None = None) -> Actor:
        actor = super().__new__(cls, name)
        actor.request_id = request_id
        return actor
