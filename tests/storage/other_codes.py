"""A plugin of pytest that gives every state another stored code, in reverse order, before other modules read them."""

from __future__ import annotations

from penstock.domain import states
from penstock.domain.states import BY_CODE, CODES, RESERVED, SETS


def _other(code: int) -> int:
    return 60 - 6 * code


_codes = {status: _other(code) for status, code in CODES.items()}
_reserved = {name: _other(code) for name, code in RESERVED.items()}
_sets = {name: tuple(sorted(map(_other, codes))) for name, codes in SETS.items()}
states.CODES, states.RESERVED, states.SETS = _codes, _reserved, _sets
states.BY_CODE = {_other(code): status for code, status in BY_CODE.items()}
