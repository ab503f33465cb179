"""Job files: `jobs/**/*.py`, discovered, loaded and validated."""
