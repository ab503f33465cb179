"""The verbs of the store ports as plans: one text for both databases, sync and async."""
