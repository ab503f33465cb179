"""The JSON shapes of requests and answers, one file a subject."""
