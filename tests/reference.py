"""Reference vectors: every number in them is an input of a test or is compared; test_every_leaf.py holds us to it."""

import atexit
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parent / "vectors"
SEEN_FILE = "FEDSHIFT_REFERENCES_SEEN"  # where to write, at the end, what was touched
SEEN: dict[str, set[str]] = defaultdict(set)  # file -> leaves that were an input or were compared


class Reference:
    """One file of tests/vectors (json or npz); a path is "case.key.0" in a json file, the array's name in an npz file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values = _load(FOLDER / file)

    def keys(self, path: str = "") -> list[str]:
        """The names one level below a path."""
        value = self._at(path)
        return list(value) if isinstance(value, dict) else [str(i) for i in range(len(value))]

    def given(self, path: str) -> Any:
        """A value that goes into a computation: numbers as they are, lists of numbers as float64 tensors."""
        value = self._use(path)
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, list) and value and not isinstance(value[0], dict | str):
            return torch.tensor(value, dtype=torch.float64)
        return value

    def equals(self, path: str, computed: Any, abs: float = 1e-9) -> None:
        """Assert that `computed` has the shape and, to `abs`, the values that the reference has at `path`."""
        expected = np.asarray(self._use(path), dtype=np.float64)
        got = computed.detach().cpu().numpy() if isinstance(computed, torch.Tensor) else computed
        got = np.asarray(got, dtype=np.float64)
        assert got.shape == expected.shape, f"{self.file}: {path}: shape {got.shape} is not {expected.shape}"
        assert got == pytest.approx(expected, rel=0, abs=abs), f"{self.file}: {path}"

    def _at(self, path: str) -> Any:
        value = self.values
        if isinstance(value, dict) and path in value:
            return value[path]
        for part in path.split(".") if path else []:
            value = value[int(part) if isinstance(value, list) else part]
        return value

    def _use(self, path: str) -> Any:
        value = self._at(path)
        SEEN[self.file] |= {leaf for leaf, _ in leaves(value, path)}
        return value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, number) for every numeric leaf; an array is one leaf."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{i}" if path else str(i))
    elif isinstance(value, bool | int | float | np.ndarray):
        yield path, value


def _load(path: Path) -> Any:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    return json.loads(path.read_text())


def _write_seen() -> None:
    if SEEN_FILE in os.environ:
        seen = {file: sorted(paths) for file, paths in SEEN.items()}
        Path(os.environ[SEEN_FILE]).write_text(json.dumps(seen))


atexit.register(_write_seen)
