"""Definitions from decorated functions, and the handles of definitions and jobs."""
