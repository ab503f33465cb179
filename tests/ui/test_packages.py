"""The dashboard in the packages: wheels from this tree and from its sdist serve it, and neither needs Node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from penstock.http.dashboard import FOLDER
from tests.http.servers import ServerProcess
from tests.services import unavailable
from tests.worker.fleet import PATIENCE, ROOT

pytestmark = pytest.mark.xdist_group("packages")
# A bare machine: a shell's own programs, and no node among them.
WITHOUT_NODE = {"PATH": "/nowhere", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this tree."""
    if not (FOLDER / "index.html").exists() and shutil.which("npm") is None:
        unavailable("the dashboard is not built, and there is no Node to build it with (make ui)")
    folder = tmp_path_factory.mktemp("packages")
    _hatch(ROOT, folder, dict(os.environ))
    return folder


@pytest.fixture(scope="module")
def wheel_from_tree(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel_from_sdist(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    assert not (source / "ui").exists(), "an sdist carries what is built, not what it is built from"
    _hatch(source, folder / "dist", WITHOUT_NODE, "-t", "wheel")
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


@pytest.mark.parametrize("wheel", ["wheel_from_tree", "wheel_from_sdist"])
def test_an_installed_wheel_serves_the_dashboard(request: pytest.FixtureRequest, wheel: str, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    uv = str(Path(sys.executable).with_name("uv"))
    package = request.getfixturevalue(wheel)
    subprocess.run(
        [uv, "pip", "install", "--offline", "--no-deps", "--python", sys.executable, "--target", installed, package],
        check=True, capture_output=True, env={**WITHOUT_NODE, "UV_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    environment = {**WITHOUT_NODE, "PYTHONPATH": str(installed)}
    program = "import penstock.http.dashboard; print(penstock.http.dashboard.FOLDER)"
    where = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment, cwd=tmp_path)
    assert where.strip() == str(installed / "penstock" / "_ui")

    command = [sys.executable, "-m", "penstock", "serve", "--store", f"sqlite:///{tmp_path}/jobs.db", "--port", "0"]
    server = ServerProcess(command, environment, tmp_path / "log", tmp_path)
    try:
        page = server.ready().request("GET", "/", timeout=PATIENCE).text
        files = re.findall(r'(?:src|href)="\./([^"]+)"', page)
        answers = {name: server.request("GET", f"/{name}") for name in files}
    finally:
        server.kill()

    assert any(name.startswith("assets/") and name.endswith(".js") for name in files)
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 200} == {}
    assert (installed / "penstock" / "_ui" / "licences.txt").read_text().strip() != ""


def _hatch(source: Path, target: Path, environment: dict[str, str], *flags: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target, *flags],
        cwd=source, capture_output=True, text=True, env={**environment, "SOURCE_DATE_EPOCH": "1767225600"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
