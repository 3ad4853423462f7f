"""docs/columns.md: the columns of every Parquet file, from the schemas by which they are written."""

from __future__ import annotations

import pyarrow as pa

from fedshift.analysis.collected import RUNS
from fedshift.common.registry import get, own
from fedshift.data.dataset import INDEX_TYPES
from fedshift.federation.records import DIAGNOSTICS, KEYS, SCHEMA, STATISTICS

PLACE = {
    "round": "rounds that were finished; 0 is the untrained model",
    "stage": "when: `post_agg` after aggregation, `post_train` right after the client's training, `train` (a client's loss), `cost`, `diagnostic`; `machine` in timings.parquet",
    "model": "`global`, or `personal` (each client its own); empty if not of a model",
    "member": "which of a method's models for the held-out domain; 0 if it has one",
    "client": "the client; -1: the held-out domain or none; -2: a second held-out domain",
    "split": "`train`, `val`, `test`, `target` (the held-out domain); empty if not of images",
}
METRIC = {
    "metric": "`accuracy` (a fraction), `loss` (nats), `bytes_up`, `images`, `seconds` ..",
    "value": "its value",
    "n": "number of images; 0 if not of images",
    "time": "null, so that equal runs write equal bytes; in earlier versions the time of recording in seconds since 1970",
}
TIMING = {
    "metric": "`seconds` of the round, and `peak_memory_mb` so far, on the machine that trained it",
    "time": "seconds since 1970 when the round ended",
}
STATISTIC = {
    "n": "samples by class",
    "correct": "samples by class whose label has the highest logit",
    "loss": "mean cross entropy by class in nats; 0 for a class without samples",
    "wrong": "samples that are classified wrongly, by confidence: 20 bins of [0, 1]",
    "right": "the same of those that are classified rightly",
    "confidence": "sum of the confidences of the samples in a bin",
}
DIAGNOSTIC = {
    "round": PLACE["round"],
    "client": "the client; -1: none",
    "name": "of the tensor; the attribute `logs` of a method lists them",
    "index": "position in the tensor's other axes, flattened",
    "value": "the number",
}
RUN = {
    "digest": "run id, 16 hexadecimals",
    "code": "fingerprint of its method's and model's files when it was trained; empty in earlier versions",
    "installed": "the same when the metrics were collected",
    "source": "`own`: trained here; `archive`: read from the archive",
    "run": "its directory in the project folder",
    "state": "`finished`, `failed` or `missing`",
    "failure": "why it failed",
    "spec": "its settings, as JSON",
    "adaptation": "of an adapted row: its adaptation, as JSON; otherwise null",
    "evaluates": "the model that tables show: `global` or `personal`",
    "stage": "the stage of that model",
    "bn": "batch-norm statistics: `none`, `averaged`, or `local` to each client",
    "precision": "`fp32`, `tf32` or `bf16`",
    "hardware": "the accelerator, or the CPU's instruction set, model (if recorded) and threads",
    "images": "hash of its decoded images",
    "pooled": "whether one client has the images of all clients",
    "rounds": "trained rounds; fewer than declared after an early stop",
    "finished": "when it was finished, in seconds since 1970",
    "classes": "their names",
    "clients": "for each client: `client`, `domains`, and images per split",
    "absent": "domain -> its missing classes, as JSON",
    "bytes_up": "bytes that all clients sent in the whole run",
    "bytes_down": "bytes that they received",
    "state_dict_bytes": "bytes of one complete model",
    "macs_per_image": "multiply-accumulates of one forward pass of one image",
    "seconds": "of training, evaluation included",
    "peak_memory_mb": "highest memory, MiB",
}
IMAGE = {
    "sample": "the image's position in `images.npy`",
    "path": "its file in the raw images",
    "domain": "its domain",
    "class": "name of its class",
    "label": "number of its class",
    "split": "in `index.parquet` the official split or empty; in a partition `train`, `val`, `test`, `target` or `unused`",
    "group": "equal for byte-identical images; -1: no duplicate",
    "client": "its client; -1: the held-out domain or none",
}
SHOWN = {name: IMAGE[name] for name in ("sample", "domain", "label")} | {
    "class": IMAGE["class"],
    "predicted": "the class that has the highest logit",
}
LAYER = {"layer": "its name", "place": "its number, from 1"}
COUNTED = {"images": "how many images"}
EVALUATED: dict[str, dict[str, str]] = {
    "activations": {
        **LAYER, **COUNTED,
        "mean": "[C] of each filter's responses", "variance": "[C] of each filter's responses",
    },
    "attention": {
        **SHOWN,
        "side": "positions along a side of the map",
        "scores": "[side * side] row by row",
        "px": "side of the image",
        "pixels": "[px * px * 3] bytes, RGB, row by row",
    },
    "cka": {**COUNTED, "other": "the second client", "cka": "linear CKA of the two networks' features"},
    "distances": {
        **COUNTED,
        "inter": "mean distance of features of two classes",
        "intra": "of one class",
        "domains": "of one class, from two domains",
    },
    "filters": {
        **LAYER, **SHOWN,
        "filter": "its number in the layer",
        "rank": "of the patch, from 1, the highest response",
        "response": "the filter's highest value on the image",
        "px": "side of the patch",
        "patch": "[px * px * 3] bytes, RGB, row by row",
        "gradient": "the same of guided backpropagation: 128 is 0, the largest is 1 or 255",
    },
    "spread": {**LAYER, "entries": "its weights", "deviation": "mean of their standard deviations over clients"},
    "tsne": {**SHOWN, "x": "place on the map, without a unit", "y": "the same"},
    "confusion": {
        "classes": "names of the classes",
        "counts": "[C * C] images by label, then by the class that has the highest logit",
    },
    "scores": {
        "classes": "names of the classes",
        "positive": "the class that counts as positive; empty: each in turn",
        "samples": "[n] numbers of the images, in the order of their index",
        "labels": "[n] their classes, by number",
        "probabilities": "[n * C] of each image and class",
    },
    "features": {**SHOWN, "feature": "[F] what the head sees, fp32"},
    "fdse": METRIC,
    "fedbn": METRIC,
}  # fmt: skip
FRONT = {
    "method": "the row in the experiment's tables",
    "<axis>": "its value on each axis of the experiment, a column each: `target`, `seed`, ..",
}
GATHERED = "results/metrics/<experiment>"
RUN_FOLDER = "results/runs/<data set>/<method>/<target>/seed<k>/<digest>"


def columns() -> str:
    """A table of every file."""
    index = {"sample": "int32", **INDEX_TYPES}
    held = {"sample": "int32", "client": "int16"} | {
        name: INDEX_TYPES[name] for name in ("domain", "class", "label", "split")
    }
    axes = dict.fromkeys(FRONT, "string")
    front, named = {**axes, "digest": "string"}, FRONT | {"digest": RUN["digest"]}
    evaluations = {name: _types(pa.schema(get("evaluations", name).columns)) for name in own("evaluations")}
    parts = [
        "## A run\n",
        _section(f"{RUN_FOLDER}/metrics.parquet", _types(SCHEMA), PLACE | METRIC),
        _section(f"{RUN_FOLDER}/timings.parquet", _types(SCHEMA), PLACE | METRIC | TIMING),
        _section(f"{RUN_FOLDER}/statistics.parquet", _types(STATISTICS), PLACE | STATISTIC),
        _section(f"{RUN_FOLDER}/diagnostics.parquet", _types(DIAGNOSTICS), DIAGNOSTIC),
        "## Evaluations\n",
        f"`{RUN_FOLDER}/evaluated/<evaluation>-<key>.parquet`, of all runs of an experiment `{GATHERED}.evaluated/<label>.parquet`, with the columns of\n"
        f"`{GATHERED}.parquet` up to `digest` in front. Each begins with {', '.join(f'`{key}`' for key in KEYS)}, as `metrics.parquet`; then:\n",
        *(_section(name, types, EVALUATED[name]) for name, types in evaluations.items()),
        "## An experiment\n",
        _section(f"{GATHERED}.parquet", front | _types(SCHEMA), named | PLACE | METRIC),
        _section(f"{GATHERED}.statistics.parquet", front | _types(STATISTICS), named | PLACE | STATISTIC),
        _section(f"{GATHERED}.runs.parquet", axes | _types(RUNS), FRONT | RUN),
        "## Images\n",
        _section("data/prepared/<data set>/<px>-<recipe>/index.parquet", index, IMAGE),
        _section("data/partitions/<data set>/<recipe>.parquet", held, IMAGE),
    ]
    return "\n".join(parts)


def _types(schema: pa.Schema) -> dict[str, str]:
    """Column -> type, lists in brackets."""
    return {field.name: _type(field.type) for field in schema}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"[{_type(kind.value_type)}]"
    if pa.types.is_struct(kind):
        return "struct"
    return {"double": "float64", "float": "float32", "halffloat": "float16"}.get(str(kind), str(kind))


def _section(title: str, types: dict[str, str], meanings: dict[str, str]) -> str:
    """A table of one file. Raises KeyError for a column without a meaning."""
    rows = [f"| `{name}` | {kind} | {meanings[name]} |" for name, kind in types.items()]
    return "\n".join([f"### `{title}`\n", "| column | type | meaning |", "|---|---|---|", *rows, ""])
