"""For receivers of webhooks: is this from penstock, is it fresh, and did I see it before?

It needs nothing but the standard library, and no store.

    told = verify(body, headers, secret)
    if seen.first(told["id"]):
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
    """Check a webhook and give what it tells; raises `InvalidSignature` when it cannot be trusted.

    `body` is what came over the wire, to the byte. The headers are those of Standard Webhooks or
    `X-Penstock-Signature`. While you replace a secret, give both. A message may be `tolerance` seconds old, and a
    minute ahead of your clock.
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
            hint="Give all headers of the request.",
        )
    try:
        return json.loads(data)
    except ValueError:
        raise InvalidSignature("The signature is right, but the body is not JSON.") from None


class Seen:
    """Remembers the newest ids, for receivers of one process; others keep them in their database."""

    def __init__(self, most: int = 10_000) -> None:
        if most < 1:
            raise InvalidInput(f"Seen must remember at least one id, not {most}.")
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def first(self, message_id: str) -> bool:
        """Whether this id comes for the first time; from now on it does not."""
        with self._lock:
            if message_id in self._ids:
                self._ids.move_to_end(message_id)
                return False
            self._ids[message_id] = None
            if len(self._ids) > self._most:
                self._ids.popitem(last=False)
            return True

    def forget(self, message_id: str) -> None:
        """Let it count as new again: what you did with it came to nothing."""
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
        raise InvalidSignature("The request does not say when it was sent.")
    timestamp = int(text)
    if timestamp < now - tolerance:
        raise InvalidSignature(f"The request was sent {now - timestamp:.0f} s ago.", hint="It may have been replayed.")
    if timestamp > now + FUTURE_SECONDS:
        raise InvalidSignature(f"The request was sent {timestamp - now:.0f} s ahead of this clock.")
    return timestamp


def _compare(given: Sequence[str], wanted: Sequence[str]) -> None:
    """Every pair is compared in full, so that time tells nothing."""
    same = [hmac.compare_digest(one.encode(errors="replace"), other.encode()) for one in given[:10] for other in wanted]
    if not any(same):
        raise InvalidSignature(
            "No signature of the request fits.", hint="Look at the secret, and give the body as it came."
        )
