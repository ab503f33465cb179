"""Care of a store: doctor, integrity, moves."""
