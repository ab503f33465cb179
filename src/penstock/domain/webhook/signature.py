"""Webhook signatures: the headers that a sender writes and a receiver verifies.

Two formats are sent. Standard Webhooks signs `id.timestamp.body` and writes base64; `X-Penstock-Signature`
signs `timestamp.body` and writes hexadecimal digits. While a secret is being replaced, both secrets sign.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from penstock.domain.errors import InvalidInput

ID_HEADER = "webhook-id"
TIME_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
OWN_HEADER = "X-Penstock-Signature"
PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def secret_text(random_bytes: bytes) -> str:
    """Encode 24 to 64 random bytes as the text of a secret."""
    if not LEAST_BYTES <= len(random_bytes) <= MOST_BYTES:
        raise InvalidInput(f"A webhook secret has {LEAST_BYTES} to {MOST_BYTES} bytes, not {len(random_bytes)}.")
    return PREFIX + base64.b64encode(random_bytes).decode()


def secret_key(secret: str) -> bytes:
    """Decode a secret. The error never shows the given text."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise InvalidInput(
            "This is no webhook secret.",
            hint=f"It is {PREFIX!r} and base64 of {LEAST_BYTES} to {MOST_BYTES} random bytes.",
        )
    return key


def origin_secret(secret: str, origin: str) -> str:
    """Derive the secret for job URLs at one origin, such as https://hooks.example:443, from the global secret.

    A receiver that knows its derived secret cannot sign for other receivers.
    """
    return secret_text(hmac.digest(secret_key(secret), b"penstock-webhook-origin\0" + origin.encode(), hashlib.sha256))


def standard_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature in the format of Standard Webhooks."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret_key(secret), signed, hashlib.sha256)).decode()


def own_signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return a signature in penstock's own format, without the `v1=` prefix."""
    return hmac.digest(secret_key(secret), b"%d.%s" % (timestamp, body), hashlib.sha256).hex()


def headers(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of one try; without a secret they hold no signature."""
    made = {ID_HEADER: message_id, TIME_HEADER: str(timestamp)}
    if secrets:
        made[SIGNATURE_HEADER] = " ".join(standard_signature(each, message_id, timestamp, body) for each in secrets)
        own = ",".join(f"v1={own_signature(each, timestamp, body)}" for each in secrets)
        made[OWN_HEADER] = f"t={timestamp},{own}"
    return made
