"""The doers: what claims jobs, runs them, and looks after those that others left behind. They speak only to ports."""
