"""The stages of the engine's tests, for workers that take jobs from a queue."""

from tests.engine.conftest import engine_database, quiet_stage, stage

__all__ = ["engine_database", "quiet_stage", "stage"]
