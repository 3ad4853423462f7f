"""What tests of LaTeX share."""

from __future__ import annotations

import os
import shutil

import pytest


@pytest.fixture
def pdflatex() -> None:
    """LaTeX; without it the test is skipped, or fails under FEDSHIFT_REQUIRE_LATEX=1."""
    if shutil.which("pdflatex") is None:
        if os.environ.get("FEDSHIFT_REQUIRE_LATEX") == "1":
            pytest.fail("pdflatex is not on PATH, and FEDSHIFT_REQUIRE_LATEX=1")
        pytest.skip("no pdflatex (Debian: texlive-latex-recommended texlive-science lmodern)")
