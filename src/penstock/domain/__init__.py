"""Nouns and rules, as pure code: no I/O; clock and randomness are arguments."""
