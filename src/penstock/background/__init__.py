"""Duties, timed work that any process may do, one file a duty: promote, rescue, schedule, retire, alert, deliver."""
