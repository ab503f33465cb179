"""Server-sent events: the hub, the streams of clients, the pages of events."""
