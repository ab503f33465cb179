"""What can be done with jobs, definitions, schedules, webhooks, tokens and workers, carried out on the ports."""
