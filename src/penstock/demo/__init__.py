"""`penstock demo`: sample jobs, and a server and a worker for them."""
