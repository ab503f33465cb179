"""Refuses file systems on which SQLite's locks do not hold."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.domain.errors import StoreError

_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


def refuse(path: str) -> None:
    """Raise when `path` lies on a network file system."""
    kind = file_system(Path(path).resolve().parent)
    if kind in NETWORK:
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not hold and data gets lost.",
            hint="Put the file on a local disk, or use PostgreSQL.",
        )


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The kind of file system that holds a folder; empty where this cannot be known."""
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(fields := left.split()) < 5 or not right:
            continue
        point = _ESCAPED.sub(lambda found: chr(int(found.group(1), 8)), fields[4])
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
