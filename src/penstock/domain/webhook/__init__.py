"""Webhooks: endpoints, settings, URLs, signatures."""
