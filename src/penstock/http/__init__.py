"""HTTP in, the same library calls out; `penstock.http.application.create` makes the ASGI application."""
