"""For receivers of webhooks: verify the signature and age of a message, and detect duplicates.

It needs only the standard library, and no store.

    message = verify(body, headers, secret)
    if seen.first(message["id"]):
        ...

"""

from __future__ import annotations

import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from penstock.domain.errors import InvalidInput
from penstock.domain.errors import InvalidSignature as InvalidSignature
from penstock.domain.webhook import signature

PAST_SECONDS = 300.0
FUTURE_SECONDS = 60.0


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = PAST_SECONDS,
    now: float | None = None,
) -> Any:
    """Verify a webhook and return its message; raise `InvalidSignature` if it is not authentic.

    `body` is the received body, byte by byte. The headers are those of Standard Webhooks or
    `X-Penstock-Signature`. While a secret is being replaced, pass both. A message may be `tolerance` seconds old, and a
    minute ahead of this clock.
    """
    data = body.encode() if isinstance(body, str) else bytes(body)
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets:
        raise InvalidInput("A webhook cannot be verified without a secret.")
    given = {name.lower(): value for name, value in headers.items()}
    moment = time.time() if now is None else now
    if signature.SIGNATURE_HEADER in given:
        _check_standard(data, given, secrets, tolerance, moment)
    elif signature.OWN_HEADER.lower() in given:
        _check_own(data, given[signature.OWN_HEADER.lower()], secrets, tolerance, moment)
    else:
        raise InvalidSignature(
            f"The request has neither {signature.SIGNATURE_HEADER} nor {signature.OWN_HEADER}.",
            hint="Pass all headers of the request.",
        )
    try:
        return json.loads(data)
    except ValueError:
        raise InvalidSignature("The signature is valid, but the body is not JSON.") from None


class Seen:
    """Remembers the newest ids, for receivers in one process; others store them in their database."""

    def __init__(self, most: int = 10_000) -> None:
        if most < 1:
            raise InvalidInput(f"Seen must remember at least one id, not {most}.")
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def first(self, message_id: str) -> bool:
        """Return whether this id is new, and remember it."""
        with self._lock:
            if message_id in self._ids:
                self._ids.move_to_end(message_id)
                return False
            self._ids[message_id] = None
            if len(self._ids) > self._most:
                self._ids.popitem(last=False)
            return True

    def forget(self, message_id: str) -> None:
        """Forget an id: processing its message failed."""
        with self._lock:
            self._ids.pop(message_id, None)


def _check_standard(
    data: bytes, headers: Mapping[str, str], secrets: Sequence[str], tolerance: float, now: float
) -> None:
    message_id = headers.get(signature.ID_HEADER)
    if not message_id:
        raise InvalidSignature(f"The request has no {signature.ID_HEADER}.")
    timestamp = _fresh(headers.get(signature.TIME_HEADER), tolerance, now)
    wanted = [signature.standard_signature(each, message_id, timestamp, data) for each in secrets]
    _compare(headers[signature.SIGNATURE_HEADER].split(" "), wanted)


def _check_own(data: bytes, header: str, secrets: Sequence[str], tolerance: float, now: float) -> None:
    parts = [part.partition("=")[::2] for part in header.split(",")]
    times = [value for name, value in parts if name == "t"]
    timestamp = _fresh(times[0] if len(times) == 1 else None, tolerance, now)
    wanted = [signature.own_signature(each, timestamp, data) for each in secrets]
    _compare([value for name, value in parts if name == "v1"], wanted)


def _fresh(text: str | None, tolerance: float, now: float) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InvalidSignature("The request has no valid timestamp.")
    timestamp = int(text)
    if timestamp < now - tolerance:
        raise InvalidSignature(f"The request was sent {now - timestamp:.0f} s ago.", hint="It may have been replayed.")
    if timestamp > now + FUTURE_SECONDS:
        raise InvalidSignature(f"The request was sent {timestamp - now:.0f} s ahead of this clock.")
    return timestamp


def _compare(given: Sequence[str], wanted: Sequence[str]) -> None:
    """Compare every pair in full, so that the time reveals nothing."""
    same = [hmac.compare_digest(one.encode(errors="replace"), other.encode()) for one in given[:10] for other in wanted]
    if not any(same):
        raise InvalidSignature(
            "No signature of the request is valid.", hint="Check the secret, and pass the body unchanged."
        )
