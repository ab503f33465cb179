"""The side of each contender: a program that creates jobs as it is told to, and one that works them off.

Each file has the same few functions: `prepare` makes the schema; `single`, `concurrent` and `bulk` create jobs; `left`
says how many have not ended; `work` runs a worker until SIGTERM. They run in environments of their own and import
nothing of this project but each other; `penstock.py` and `raw.py` run in ours.
"""
