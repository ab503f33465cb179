"""Job files: `jobs/**/*.py`, found, loaded and checked."""
