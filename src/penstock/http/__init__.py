"""The HTTP API; `penstock.http.application.create` makes the ASGI application."""
