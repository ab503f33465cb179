"""The commands of the store ports as plans: written once for both databases, sync and async."""
