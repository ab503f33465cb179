"""Queue adapters: they carry job ids to workers and nothing else."""
