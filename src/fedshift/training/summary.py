"""The summary of a finished run: what it was, on which data, which weights it has, what it cost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.common.tensors import shapes_only
from fedshift.federation.cost import macs_per_image, peak_memory_mb, state_dict_bytes
from fedshift.federation.loop import Federation
from fedshift.storage.rundir import Summary


def summarize(
    federation: Federation, hashes: dict[str, str], classes: list[str],
    weights: dict[str, dict[str, str]], metrics: pa.Table, seconds: float,
) -> Summary:  # fmt: skip
    """What a Federation that has trained to the end is, and what its records say it cost.

    hashes: of images, partition and published weights; weights: as `weights.write` returns them; seconds:
        that the run took, in all its processes.
    """
    spec, state, layout = federation.spec, federation.state, federation.layout
    statistics = layout.kind("bn_statistic")
    bn = "none" if not statistics.size else "local" if (statistics & state.local).size else "averaged"
    with shapes_only():
        model = federation.build()
    model_name, stage = federation.evaluator.reported
    return {
        "digest": spec.run_id,
        "method_code": spec.method_code,
        "spec": spec.model_dump(mode="json"),
        "dataset": spec.data.dataset,
        "method": spec.method.name,
        "target": spec.data.target_name,
        "seed": spec.seed,
        "clients": [
            {
                "client": k,
                "domains": list(client.domains),
                "train": len(client.train),
                "val": len(client.val),
                "test": len(client.test),
            }
            for k, client in enumerate(federation.evaluated_clients)
        ],
        "classes": classes,
        "evaluates": model_name,
        "stage": stage,
        "hashes": {**hashes, **{f"weights_{name}": file["sha256"] for name, file in weights.items()}},
        "weights": {name: file["file"] for name, file in weights.items()},
        "rounds": federation.round,
        "best_round": federation.evaluator.selection.round,
        "costs": {
            **_totals(metrics),
            "seconds": seconds,
            "state_dict_bytes": state_dict_bytes(model),
            "macs_per_image": macs_per_image(model, spec.data.input_px),
            "peeked_floats": federation.server.peeked,
            "peak_memory_mb": peak_memory_mb(federation.device),
        },
        "policy": {
            "shared": state.layout.floats(state.shared),
            "personal": state.layout.floats(state.personal),
            "local": state.layout.floats(state.local),
            "bn": bn,
        },
    }


def _totals(metrics: pa.Table) -> dict[str, Any]:
    """bytes_down, bytes_up and images of the whole run."""
    rows = metrics.filter(pc.equal(metrics["stage"], "cost")).group_by("metric").aggregate([("value", "sum")])
    return dict(zip(rows["metric"].to_pylist(), rows["value_sum"].to_pylist(), strict=True))
