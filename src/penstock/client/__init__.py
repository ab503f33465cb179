"""The client: what the library can do with jobs, over HTTP."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    # Whoever needs a part of it only, such as the command line, does not wait for the whole.
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.client.client import Client

    return Client
