"""Runs `penstock` commands as subprocesses, in a separate folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Command:
    """A folder, and an environment without settings of ours but those given."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self._environment = {**outside, "PYTHONPATH": str(Path(__file__).parents[2]), **environment}

    def __call__(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """What it printed on stdout and on stderr; the exit code must be the one named."""
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout, done.stderr
