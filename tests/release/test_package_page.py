"""The page of the package in a registry: addresses of the project, pictures that show, no link that leads nowhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
ADDRESS = "https://code.example/team/penstock"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def metadata(repository: str) -> dict[str, Any]:
    """What the built package says of itself."""
    told = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_REPOSITORY": repository},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    return dict(json.loads(told.stdout))


def links(page: dict[str, Any]) -> list[tuple[str, str]]:
    """The links of the long description that lead to other pages; a picture's is marked by `!`."""
    found = LINK.findall(page["readme"]["text"])
    return [(mark, target) for mark, target in found if not target.startswith("#")]


def test_a_release_names_the_addresses_of_the_project() -> None:
    page = metadata(f"{ADDRESS}/")

    assert page["urls"] == {
        "Repository": ADDRESS,
        "Documentation": f"{ADDRESS}/blob/v{page['version']}/docs/guide/getting-started.md",
        "Changelog": f"{ADDRESS}/blob/v{page['version']}/CHANGELOG.md",
        "Issues": f"{ADDRESS}/issues",
    }


def test_pictures_and_links_of_a_release_lead_to_its_files() -> None:
    page = metadata(ADDRESS)
    pictures, pages = f"{ADDRESS}/raw/v{page['version']}/", f"{ADDRESS}/blob/v{page['version']}/"

    found = links(page)

    assert page["readme"]["content-type"] == "text/markdown"
    assert ("!", f"{pictures}docs/images/overview-light.png") in found
    assert ("", f"{pages}docs/guide/getting-started.md") in found
    for mark, target in found:
        start = pictures if mark else pages
        assert target.startswith(start), target
        assert (ROOT / target.removeprefix(start).partition("#")[0]).exists(), target


def test_a_build_without_an_address_has_no_link_that_leads_nowhere() -> None:
    page = metadata("")

    assert "urls" not in page
    assert links(page) == []
    assert "More about it" in page["readme"]["text"]
    assert "```python\nfrom penstock import Penstock" in page["readme"]["text"]


@pytest.mark.parametrize("wrong", ["code.example/team/penstock", "ftp://code.example/penstock", "https://"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_REPOSITORY": wrong},
        capture_output=True,
        text=True,
    )

    assert told.returncode != 0
    assert "PENSTOCK_REPOSITORY" in told.stderr
