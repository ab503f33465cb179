"""Look for known vulnerabilities in what penstock is built of and developed with. Run: python -m release.audit

The packages of all lock files are looked up at OSV, which has the advisories of PyPI, npm and GitHub. Exit code 0: none
is known; 1: some are; 2: the database could not be asked, so that nothing is known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from release.sbom import LOCK, ROOT, document, locked

ADDRESS = "https://api.osv.dev/v1/querybatch"
_SECONDS = 60.0
_AT_ONCE = 500


def purls() -> list[str]:
    """Every package that some lock file pins, those for development included."""
    pinned = [*locked(LOCK.read_text(encoding="utf-8")), *locked((ROOT / "requirements/uv.txt").read_text("utf-8"))]
    return sorted({each.purl for each in pinned} | {each["purl"] for each in document()["components"]})


def known(wanted: Sequence[str], address: str) -> Mapping[str, list[str]]:
    """The advisories for packages, by package. Raise `httpx2.HTTPError` or ValueError when there is no whole answer."""
    found: dict[str, list[str]] = {}
    for begin in range(0, len(wanted), _AT_ONCE):
        some = wanted[begin : begin + _AT_ONCE]
        answer = httpx2.post(
            address, json={"queries": [{"package": {"purl": each}} for each in some]}, timeout=_SECONDS
        )
        answer.raise_for_status()
        results: list[dict[str, Any]] = answer.json()["results"]
        for purl, result in zip(some, results, strict=True):
            if vulnerabilities := result.get("vulns"):
                found[purl] = [each["id"] for each in vulnerabilities]
    return found


def main(environment: Mapping[str, str]) -> int:
    address, wanted = environment.get("OSV_ADDRESS", ADDRESS), purls()
    try:
        found = known(wanted, address)
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        print(
            f"Nothing was checked: {address} cannot be asked ({type(error).__name__}: {error}). "
            "Run `make audit` where it can be reached.",
            file=sys.stderr,
        )
        return 2
    for purl, advisories in found.items():
        print(f"{purl}: {', '.join(f'https://osv.dev/{each}' for each in advisories)}")
    print(f"{len(wanted)} packages were looked up; {len(found)} of them have known vulnerabilities.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
