"""Install the lowest versions that `pyproject.toml` declares into a new environment, and work with them.

It needs a package index. Run it by `make minimums`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
_NO_NETWORK = ("Failed to fetch", "error sending request", "dns error", "Connection refused", "timed out")


def main() -> None:
    """Exit code 1 when something does not work with the lowest versions."""
    with tempfile.TemporaryDirectory(prefix="penstock-minimums-") as folder:
        place = Path(folder)
        python = place / "bin" / "python"
        uv = str(Path(sys.executable).parent / "uv")
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(place), "--clear")
        lowest = ("--quiet", "--resolution", "lowest-direct", "--all-extras")
        project = str(ROOT / "pyproject.toml")
        found = subprocess.run([uv, "pip", "compile", *lowest, project], capture_output=True, text=True)
        if found.returncode and any(sign in found.stderr for sign in _NO_NETWORK):
            print("The package index does not answer: nothing was checked.")
            return
        _run(uv, "pip", "install", *lowest, "--python", str(python), "-r", project)
        skipping = {**os.environ, "PENSTOCK_SKIP_UI": "1"}
        _run(uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", str(ROOT), environment=skipping)
        _run(uv, "pip", "list", "--python", str(python), "--format", "freeze")
        _run(str(python), "-W", "ignore", str(ROOT / "tests" / "release" / "smoke.py"), folder=place)
    print("All declared minimums work.")


def _run(*words: str, environment: dict[str, str] | None = None, folder: Path = ROOT) -> None:
    done = subprocess.run(words, env=environment, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{words[0]} {words[1]} failed with exit code {done.returncode}.")


if __name__ == "__main__":
    main()
