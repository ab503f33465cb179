"""The worker: claims jobs, keeps its lease, supervises attempts, settles."""
