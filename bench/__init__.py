"""Benchmarks: our rate and the raw rate of the same machine, in one run."""
