"""The names of states in `.sql` files, and the stored codes that replace them.

{queued}             the code of a state
COLUMN IN {ended}    membership in a named set of states; NOT IN as well

`core.transitions` has the codes and the sets. Comparisons by order of codes mean nothing and are not written.
"""

from __future__ import annotations

import re
from functools import cache

from penstock.domain.states import CODES, RESERVED, SETS

NAMES = frozenset({*map(str, CODES), *RESERVED, *SETS})
"""Names of states and sets: no other expression of a `.sql` file may have one of them."""
_SHORT = 2
"""SQLite compares with each member of so short a list. For a longer one it would build a table, again for each
statement; the bits of a number do the same in two steps, for codes below 63."""


@cache
def fill_states(text: str, dialect: str) -> str:
    """A text with codes in place of the names of states, as a dialect tests sets of them."""

    def listed(found: re.Match[str]) -> str:
        column, negated, codes = found[1], found[2] or "", SETS[found[3]]
        if dialect == "sqlite" and len(codes) > _SHORT:
            return f"{negated}({sum(1 << code for code in codes)} >> {column} & 1)"
        return f"{column} {negated}IN ({', '.join(map(str, codes))})"

    return _STATE.sub(lambda found: str(_CODES[found[1]]), _MEMBER.sub(listed, text))


_CODES = {**{str(status): code for status, code in CODES.items()}, **RESERVED}
_MEMBER = re.compile(rf"(\+?[\w.]+) (NOT )?IN \{{({'|'.join(SETS)})\}}")
_STATE = re.compile(rf"\{{({'|'.join(_CODES)})\}}")
