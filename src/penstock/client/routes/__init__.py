"""The route of each operation: how it is asked for over HTTP, and what its answer means. One file a noun."""
