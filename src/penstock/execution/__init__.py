"""Runs a handler to its outcome: context, phases, coroutines, captured log records."""
