"""The stores that several processes share, as for the conformance suite."""

from tests.storage.conftest import postgres_16_database, postgres_18_database, shared_store

__all__ = ["postgres_16_database", "postgres_18_database", "shared_store"]
