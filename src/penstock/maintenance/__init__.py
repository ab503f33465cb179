"""Maintenance of a store: doctor, integrity checks, moves."""
