"""`snakemake --unlock` frees the folder of a snakemake that was killed, and plans nothing."""

from __future__ import annotations

from pathlib import Path

from tests.workflow.checkout import Checkout, tiny


def test_locks_go_and_no_plan_is_made(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    locks = made.root / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.input.lock").write_text("results/metrics/demo.parquet\n")
    made.run("--unlock")
    assert not [*made.root.rglob("*.lock")] and not (made.root / "results").exists()
