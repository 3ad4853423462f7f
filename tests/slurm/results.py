"""What two checkouts trained, compared to the last bit."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.numpy import load_file

from fedshift.common.files import sha256


def weights(run: Path) -> dict[str, str]:
    """sha256 of the content of every kept file of weights."""
    hashes = {}
    for path in sorted((run / "weights").iterdir()):
        entries = load_file(path)
        hashes[path.name] = sha256(
            b"".join(name.encode() + entries[name].tobytes() for name in sorted(entries))
        )
    return hashes


def metrics(run: Path) -> pd.DataFrame:
    """All metrics but what the machine decides: its own measurements, and the time."""
    table = pd.read_parquet(run / "metrics.parquet")
    return table[table["stage"] != "machine"].drop(columns="time").reset_index(drop=True)


def finished(root: Path) -> dict[str, Path]:
    """Finished runs by their place below results/runs."""
    runs = root / "results" / "runs"
    return {
        path.parent.relative_to(runs).as_posix(): path.parent for path in sorted(runs.rglob("summary.json"))
    }


def assert_same(one: Path, other: Path, searched: str = "no seed") -> None:
    """The same runs are finished in both checkouts, with the same weights and metrics; those of the seed `searched` keep no weights."""
    first, second = finished(one), finished(other)
    assert first.keys() == second.keys()
    for name, run in first.items():
        if searched in run.parts:
            assert not any((r / "weights").exists() for r in (run, second[name])), name
        else:
            assert weights(run) == weights(second[name]), name
        pd.testing.assert_frame_equal(metrics(run), metrics(second[name]), check_exact=True)
        summaries: list[dict[str, Any]] = [
            json.loads((r / "summary.json").read_text()) for r in (run, second[name])
        ]
        assert summaries[0]["hashes"] == summaries[1]["hashes"]
        assert summaries[0]["best_round"] == summaries[1]["best_round"]
