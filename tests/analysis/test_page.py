"""Pages come from templates that an installed package has, too."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from fedshift.analysis.page import number, piped, template
from tests.conftest import ROOT

TEMPLATES = ROOT / "src" / "fedshift" / "analysis" / "templates"


def test_what_a_template_fills_in_is_escaped() -> None:
    environment = template("report.html.j2").environment
    assert environment.from_string("{{ text }}").render(text="<b>") == "&lt;b&gt;"


def test_a_wheel_holds_every_template(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {path.name for path in TEMPLATES.iterdir()}
    assert {"base.html.j2", "results.html.j2", "report.html.j2"} <= names
    assert {f"fedshift/analysis/templates/{name}" for name in names} <= {*zipfile.ZipFile(wheel).namelist()}


def test_a_bar_within_a_cell_does_not_end_it() -> None:
    assert piped([["row", "value"], ["a|b", "1"]], ["---", "--:"]).splitlines()[-1] == r"| a\|b | 1 |"


def test_numbers_have_three_digits_or_so() -> None:
    assert [number(value) for value in (1234.5, 12.345, 0.5, float("nan"))] == ["1,234", "12.3", "0.5", "–"]
