"""Integrations with other programs; each is imported only when it is used."""
