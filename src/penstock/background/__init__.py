"""Timed work that any process may do: promote, rescue, schedule, retire, archive, alert, deliver."""
