"""The notebooks of docs/notebooks run from the first cell to the last, in a copy of the checkout."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT, link_images
from tests.documents import copied

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute of a quiet core
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copied(tmp_path / "checkout")
    link_images(digits, root)
    monkeypatch.setenv("FEDSHIFT_ROOT", str(root))
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}{os.pathsep}{root}")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": root}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "\n".join(output.get("text", "") for output in outputs)
    assert "error:" not in text and "failed" not in text and "Traceback" not in text, text
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    if path.stem == "domain_shift":
        assert pictures == 3
    elif path.stem == "your_images":
        assert float(text.partition("largest difference: ")[2].split()[0]) < 1e-5
        assert float(text.partition("accuracy: ")[2].split()[0]) > 0.2  # chance: 0.1
    else:
        assert "1 passed" in text and "mine" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    """So that no number in it is older than the code."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells and all(not cell.outputs and cell.execution_count is None for cell in cells)


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["domain_shift", "your_images", "your_method"]
