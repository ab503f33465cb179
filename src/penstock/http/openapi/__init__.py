"""The OpenAPI document and its page."""
