"""Export of a trained network, with its preprocessing and a model card, for programs without fedshift."""

import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import atomic_path, write_json, write_text
from fedshift.common.registry import get
from fedshift.common.tensors import write_tensors
from fedshift.common.version import __version__
from fedshift.data.augment import NORMALISE
from fedshift.deploy.predictor import Predictor
from fedshift.federation.records import own_split
from fedshift.storage.rundir import RunDirectory

FORMATS = {"torchscript": "model.pt", "onnx": "model.onnx", "safetensors": "model.safetensors"}
TOLERANCE = 1e-5  # largest difference between exported and own probabilities
ONNX = 'pip install "fedshift[onnx]", or in a checkout: pip install onnx onnxscript onnxruntime'


def export(run: RunDirectory, model: Predictor, folder: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Write a model in each of `formats` (keys of FORMATS), with model.json and its card, README.md.

    Returns the paths. Exported probabilities are compared with the model's own.

    Raises FedshiftError for an export that differs by more than TOLERANCE (it is not written), for an unknown
    format, and for ONNX without its packages.
    """
    facts = describe(run, model)
    model(_example(model, 1))  # values that networks compute once and store are then constants for exporters
    paths = []
    for name in dict.fromkeys(formats):
        if name not in FORMATS:
            raise unknown("export", "format", name, FORMATS)
        with atomic_path(path := folder / FORMATS[name]) as temporary:
            WRITERS[name](model, temporary, facts)
        paths.append(path)
    write_json(folder / "model.json", facts)
    write_text(folder / "README.md", card(facts, paths))
    return [*paths, folder / "model.json", folder / "README.md"]


def describe(run: RunDirectory, model: Predictor) -> dict[str, Any]:
    """Facts for users of an exported model: origin, input, classes, licence, accuracy by domain (%)."""
    summary = run.summary() or {}
    seen = summary["spec"]["data"]
    release = get("datasets", summary["dataset"])().release(seen["release"])
    mean, deviation = NORMALISE[model.normalise]
    return {
        **asdict(model.origin),
        "fedshift": __version__,
        "commit": summary["environment"]["commit"],
        "held_out": summary["target"],
        "classes": model.classes,
        "models": len(model.networks),
        "network": summary["spec"]["model"]["name"],
        "input": {
            "shape": ["batch", 3, model.px, model.px],
            "type": "uint8",
            "colours": "RGB",
            "resized_to": model.input_px,
            "mean": list(mean),
            "deviation": list(deviation),
        },
        "output": {"shape": ["batch", len(model.classes)], "type": "float32", "is": "probabilities"},
        "precision_in_training": summary["spec"]["local"]["precision"],
        "licence": release.licence,
        "citation": release.citation,
        "accuracy": accuracies(run, model),
    }


def accuracies(run: RunDirectory, model: Predictor) -> list[dict[str, Any]]:
    """Recorded accuracy (%) of this model by domain, with the number of tested images.

    For several models of a held-out domain, it is the mean of their accuracies, as in tables.
    """
    from fedshift.analysis.collected import timed_records

    summary, origin = run.summary() or {}, model.origin
    records = timed_records(run).to_pandas()
    rows = records[
        (records["round"] == origin.round) & (records["metric"] == "accuracy")
        & (records["model"] == origin.model) & (records["stage"] == origin.stage)
    ]  # fmt: skip
    clients = {one["client"]: one["domains"] for one in summary["clients"]}
    split = own_split(summary["spec"]["partition"], sum(one["test"] for one in summary["clients"]))
    if origin.client < 0:
        rows = rows[rows["client"] < 0]
        if origin.member is not None:
            rows = rows[rows["member"] == origin.member]
    else:
        rows = rows[(rows["client"] == origin.client) & (rows["split"] == split)]
    found = rows.groupby("client", sort=True).agg(accuracy=("value", "mean"), n=("n", "first"))
    held_out = np.atleast_1d(summary["target"]).tolist()
    return [
        {
            "domains": clients[client] if client >= 0 else [held_out[-1 - client]],
            "images": int(row["n"]),
            "accuracy": round(100 * float(row["accuracy"]), 2),
        }
        for client, row in found.iterrows()
    ]


def _example(model: Predictor, count: int) -> torch.Tensor:
    """Images of noise [count, 3, px, px], the same in every call."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, model.px, model.px), generator=generator, dtype=torch.uint8)


def _compare(ours: torch.Tensor, theirs: Any, what: str) -> None:
    difference = float(np.abs(ours.numpy() - np.asarray(theirs)).max())
    if not difference <= TOLERANCE:
        raise FedshiftError(
            what, f"its probabilities differ by {difference:.1e}", "Report this model as a bug."
        )


def _torchscript(model: Predictor, path: Path, facts: dict[str, Any]) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        # torch.jit is deprecated for torch.export, which C++ and Java do not load.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, _example(model, 2), check_trace=False)
        torch.jit.save(traced, str(path), _extra_files={"model.json": json.dumps(facts)})
        images = _example(model, 5)
        _compare(model(images), torch.jit.load(str(path))(images), "TorchScript export")


def _onnx(model: Predictor, path: Path, facts: dict[str, Any]) -> None:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise FedshiftError("export to onnx", f"needs the package {error.name}", ONNX) from None
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model, (_example(model, 2),), dynamo=True, input_names=["images"], output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False,
        )  # fmt: skip
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, {"model.json": json.dumps(facts)})
    path.write_bytes(proto.SerializeToString())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = _example(model, 5)
    with torch.no_grad():
        _compare(model(images), session.run(None, {"images": images.numpy()})[0], "ONNX export")


def _safetensors(model: Predictor, path: Path, facts: dict[str, Any]) -> None:
    entries = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    write_tensors(path, entries, {"model.json": json.dumps(facts)})


WRITERS = {"torchscript": _torchscript, "onnx": _onnx, "safetensors": _safetensors}


def card(facts: dict[str, Any], paths: Iterable[Path]) -> str:
    """The model card, in Markdown."""
    template = Path(__file__).parent / "templates" / "card.md.j2"
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    text = environment.from_string(template.read_text(encoding="utf-8"))
    return text.render(facts, files=[path.name for path in paths])
