"""Other job systems, installed outside of the tree, each measured in its own documented way."""

from bench.peers.installing import python as python
from bench.peers.isolated import celery as celery
from bench.peers.isolated import rq as rq
from bench.peers.redis_server import Redis as Redis
