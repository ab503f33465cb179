"""What type checkers other than ours see of the package: pyright knows the type of every public name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.services import unavailable

VENV = Path(sys.executable).parent
PATH = f"{VENV}{os.pathsep}{os.environ.get('PATH', '')}"


def test_pyright_knows_the_type_of_every_public_name(tmp_path: Path) -> None:
    if shutil.which("node", path=PATH) is None:
        unavailable("pyright needs node, which is not installed")

    done = subprocess.run(
        [VENV / "pyright", "--verifytypes", "penstock", "--ignoreexternal", "--outputjson"],
        # Pyright takes the package from the environment whose python is first in PATH, and not from this tree.
        cwd=tmp_path,
        env={**os.environ, "PATH": PATH, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
    )

    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["typeCompleteness"]
    unknown = {
        each["name"]: [problem["message"] for problem in each["diagnostics"]]
        for each in found["symbols"]
        if each["isExported"] and (each["isTypeAmbiguous"] or not each["isTypeKnown"])
    }
    assert unknown == {}
    assert found["completenessScore"] == 1
    assert found["exportedSymbolCounts"]["withKnownType"] > 5000
