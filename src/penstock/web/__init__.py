"""HTTP in, the same library calls out; `penstock.web.application.create` makes the ASGI application."""
