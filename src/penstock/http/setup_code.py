"""The setup code: while there is no token, it shows that a caller can read what the server printed at its start."""

from __future__ import annotations

import hmac
import secrets

HEADER = "x-penstock-setup-code"
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without those that look alike."""
_GROUPS, _GROUP = 3, 4


def new_setup_code() -> str:
    """A code such as K7QF-2M9X-PD4T: 59 random bits, too many to guess."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))


def is_setup_code(given: str, code: str) -> bool:
    """Whether a text is the code, in small letters and without dashes, too."""
    return hmac.compare_digest(_plain(given), _plain(code))


def _plain(text: str) -> bytes:
    return text.upper().replace("-", "").replace(" ", "").encode(errors="replace")
