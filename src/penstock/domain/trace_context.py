"""W3C Trace Context: the span that a job was created in, and the state that tracing systems send along with it.

Stores keep both in one text: the `traceparent`, then a space and the `tracestate` where there is one.
"""

from __future__ import annotations

import re

_LONGEST_STATE = 512
_MOST_MEMBERS = 32
_KEY = r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_VALUE = r"[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_MEMBER = re.compile(f"({_KEY})=({_VALUE})")


def kept_trace(traceparent: str | None, tracestate: str | None) -> str | None:
    """The text that a store keeps; a state that breaks the rules, or belongs to no span, is left out."""
    if traceparent is None or tracestate is None:
        return traceparent
    state = valid_state(tracestate)
    return traceparent if state is None else f"{traceparent} {state}"


def split_trace(kept: str | None) -> tuple[str | None, str | None]:
    """`traceparent` and `tracestate` of a text that a store has kept."""
    if kept is None:
        return None, None
    traceparent, _, tracestate = kept.partition(" ")
    return traceparent, tracestate or None


def valid_state(tracestate: str) -> str | None:
    """The state without optional white space and empty members; None: it is empty, too long or malformed."""
    if len(tracestate) > _LONGEST_STATE:
        return None
    members = [member for each in tracestate.split(",") if (member := each.strip(" \t"))]
    if not 1 <= len(members) <= _MOST_MEMBERS:
        return None
    keys = set[str]()
    for member in members:
        found = _MEMBER.fullmatch(member)
        if found is None or found[1] in keys:
            return None
        keys.add(found[1])
    return ",".join(members)
