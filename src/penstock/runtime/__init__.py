"""The loop of services, pace, tasks, log lines, tracing."""
