"""From a decorated function to a definition, and what users hold: handles of definitions and jobs."""
