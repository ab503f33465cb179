"""The software bill of materials: CycloneDX JSON of what a wheel of penstock contains and depends on.

It is made from the lock files alone, so that the same commit gives the same text. Run: python -m release.sbom FILE
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "dev.txt"
UI_LOCK = ROOT / "ui" / "package-lock.json"
_ROOT = "penstock (pyproject.toml)"
_BUNDLED = ("svelte",)
"""Development dependencies of the dashboard whose code is part of what is built."""

_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"#(?: via)?\s+(?!via$)(\S.*)$")


@dataclass(slots=True)
class Pinned:
    """A package of a lock file, with the packages that need it."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> list[Pinned]:
    """The packages of a file that uv compiled."""
    found: list[Pinned] = []
    for line in text.splitlines():
        if pin := _PIN.match(line):
            found.append(Pinned(re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2]))
        elif found and (digest := _HASH.search(line)):
            found[-1].hashes.append(digest[1])
        elif found and line.startswith("    #") and (via := _VIA.search(line)):
            found[-1].needed_by.append(via[1])
    return found


def shipped(packages: Sequence[Pinned]) -> list[Pinned]:
    """Those that an installation with all extras may have; what only development needs is left out."""
    names = {_ROOT}
    grown = True
    while grown:
        more = {each.name for each in packages if names.intersection(each.needed_by)} - names
        names |= more
        grown = bool(more)
    return [each for each in packages if each.name in names]


def document() -> dict[str, Any]:
    """The bill of materials as CycloneDX has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = shipped(locked(LOCK.read_text(encoding="utf-8")))
    root = f"pkg:pypi/penstock@{project['version']}"
    dashboard = list(_dashboard())
    needs: dict[str, list[str]] = {root: [each["bom-ref"] for each in dashboard]}
    purls = {_ROOT: root, **{each.name: each.purl for each in packages}}
    for each in packages:
        needs.setdefault(each.purl, [])
        for parent in each.needed_by:
            if parent in purls:
                needs.setdefault(purls[parent], []).append(each.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": root, "name": "penstock", "version": project["version"], "purl": root,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": [*map(_component, packages), *dashboard],
        "dependencies": [{"ref": ref, "dependsOn": sorted(each)} for ref, each in sorted(needs.items())],
    }  # fmt: skip


def _component(package: Pinned) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": package.purl,
        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
    }
    return {
        "type": "library", "bom-ref": package.purl, "name": package.name, "version": package.version,
        "purl": package.purl, "externalReferences": [files],
    }  # fmt: skip


def _dashboard() -> Iterator[dict[str, Any]]:
    """What is built into the dashboard."""
    for path, facts in sorted(json.loads(UI_LOCK.read_text(encoding="utf-8"))["packages"].items()):
        name = path.rpartition("node_modules/")[2]
        if path and (not facts.get("dev") or name in _BUNDLED):
            purl = f"pkg:npm/{name.replace('@', '%40')}@{facts['version']}"
            yield {"type": "library", "bom-ref": purl, "name": name, "version": facts["version"], "purl": purl}


def main(words: Sequence[str]) -> None:
    path = Path(words[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = document()
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{path} names {len(facts['components'])} components.")


if __name__ == "__main__":
    main(sys.argv[1:])
