"""What a client takes: a list or a stream, and which form of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.http.errors import Refusal

STREAM = "text/event-stream"
LIST = "application/json"
OPEN_METRICS = "application/openmetrics-text"


def wants_stream(accept: Sequence[str]) -> bool:
    """Whether the headers `Accept` ask for a stream rather than for JSON; where both are as welcome, the stream must
    have been named. Neither: refused."""
    ranges = list(_ranges(accept)) or [("*/*", 1.0)]
    stream, named = _weight(ranges, STREAM)
    plain, _ = _weight(ranges, LIST)
    if not stream and not plain:
        raise Refusal("not_acceptable", f"Events are {LIST} or {STREAM}.", hint="Send one of them as Accept.")
    return stream > plain or (stream == plain and named)


def wants_open_metrics(accept: Sequence[str]) -> bool:
    """Whether the headers `Accept` name OpenMetrics, and no more welcome form of text."""
    ranges = list(_ranges(accept))
    weight, named = _weight(ranges, OPEN_METRICS)
    return named and weight > 0 and weight >= max((each for name, each in ranges if name == "text/plain"), default=0.0)


def _weight(ranges: Sequence[tuple[str, float]], media: str) -> tuple[float, bool]:
    """How welcome a media type is, by the narrowest range that means it; and whether that is its own name."""
    for name in (media, f"{media.partition('/')[0]}/*", "*/*"):
        found = [weight for each, weight in ranges if each == name]
        if found:
            return max(found), name == media
    return 0.0, False


def _ranges(accept: Sequence[str]) -> Iterator[tuple[str, float]]:
    for each in ",".join(accept).split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        if name:
            yield name, _quality(parameters)


def _quality(parameters: Sequence[str]) -> float:
    for each in parameters:
        key, _, value = each.partition("=")
        if key.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0 <= quality <= 1 else 0.0
    return 1.0
