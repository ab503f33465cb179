"""Linux capabilities: rights of a process beyond those of its user. A job has none, not even as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_MOST = 64
"""More than Linux has; it refuses the first number that it does not know."""

_VERSION_3 = 0x2008_0522


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    """Each set has two of these: its lower and its upper half."""

    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_header = ctypes.byref(_Header(_VERSION_3, 0))
_none = ctypes.byref((_Sets * 2)())


def give_up_inheritance() -> None:
    """Let no program that is started from here, or from a fork of this process, get capabilities by being started.

    What this process may do itself stays as it is: a zygote of root changes the user of its children and kills them.
    """
    if not _LINUX:
        return
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(_MOST):
        # Only root may, and may not need it: the promise to gain no privileges holds for every user.
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    sets = (_Sets * 2)()
    with contextlib.suppress(OSError):
        _check(_libc.capget(_header, ctypes.byref(sets)))
        for half in sets:
            half.inheritable = 0
        _check(_libc.capset(_header, ctypes.byref(sets)))


def give_up() -> None:
    """Give up all capabilities: root is then only the owner of its files."""
    if _LINUX:
        _check(_libc.capset(_header, _none))


def _check(status: int) -> None:
    if status != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"capabilities cannot be changed: {os.strerror(error)}")
