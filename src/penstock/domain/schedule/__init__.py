"""Schedules: cron, recurrence, time zones, due ticks."""
