"""The documentation as a site: it is built strictly, asks no network for anything, and its search works from a disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.analysis.browser import browse
from tests.conftest import ROOT
from tests.once import once

FETCHED = re.compile(r"<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=[\"']?(https?:)?//[^>]*>")
LINKED = re.compile(r"<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>")
IMPORTED = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*")


def build(folder: Path) -> None:
    """As `make site`, elsewhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "site", lambda folder: build(folder / "site")) / "site"


@pytest.mark.slow
def test_no_page_asks_the_network_for_scripts_styles_fonts_or_pictures(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    assert len(pages) > 60
    asked = [found[0] for page in pages for found in FETCHED.finditer(page.read_text())]
    asked += [found[0] for page in pages for found in LINKED.finditer(page.read_text())]
    asked += [found[0] for style in site.rglob("*.css") for found in IMPORTED.finditer(style.read_text())]
    assert not asked


@pytest.mark.slow
def test_the_repository_s_pages_and_files_are_in_it(site: Path) -> None:
    first = (site / "index.html").read_text()
    assert 'href="results.html"' in first and 'href="repository/CONTRIBUTING.html"' in first
    assert (
        site / "repository" / "experiments" / "fdse" / "figure3.yaml"
    ).is_file()  # docs/figures.md links it
    assert "domain_shift.ipynb" in (site / "notebooks" / "domain_shift.html").read_text()
    programs = [path for path in site.rglob("*.py") if not path.is_relative_to(site / "repository" / "src")]
    assert not programs and not [*site.rglob("generate")]  # of src those that pages link to


@pytest.mark.chromium
def test_search_works_in_files_and_nothing_leaves(site: Path, tmp_path: Path) -> None:
    opened = browse(site / "index.html", tmp_path, 900, query="?q=dirichlet")
    assert not opened.console
    assert [address for address in opened.requests if not address.startswith("file:")] == []
    assert 'href="partitions.html' in opened.dom.partition("md-search-result__list")[2]
