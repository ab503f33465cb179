"""`penstock demo`: jobs that show what there is to see, a server and a worker for them."""
