"""Server-sent events: one reader of the feed for all streams, the streams of clients, and pages of events."""
