"""The pure part: nouns and rules. No I/O, no clock, no randomness of its own."""
