"""Report: tables, figures, partitions, costs and provenance of experiments, in one offline HTML file."""

import base64
import contextlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis.cells import sent
from fedshift.analysis.collected import Collected, read
from fedshift.analysis.figures.base import Axis, Plot, plots
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.page import template
from fedshift.analysis.quantities import curves, selected
from fedshift.analysis.ranking import ranking
from fedshift.analysis.tables import results
from fedshift.analysis.verdicts import COUNTED, OUTCOMES, WORDS
from fedshift.archive.machine import hardware
from fedshift.common.errors import FedshiftError
from fedshift.common.files import dotted, sha256_file, write_json, write_text
from fedshift.common.parquet import read_columns
from fedshift.common.version import __version__, commit
from fedshift.data.partition import CURE
from fedshift.spec import RunSpec
from fedshift.storage.workspace import TUNING, Workspace

COSTS = {"sent": "sent and received in a run (MB)", "seconds": "duration of a run (s)"}
INCH = 96  # pixels
LEADING = 4  # methods that the opening names


def data_address(kind: str, content: bytes) -> str:
    """The address of a file that is included in the page; `kind`: its MIME type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


Summary = dict[str, Any]
SHOWN = ("dataset", "method", "target", "clients", "environment", "hashes", "costs")


def summaries(workspace: Workspace, collected: Collected) -> dict[str, Summary]:
    """The parts SHOWN of the summary of each finished run, by run id.

    They are read from the run's directory, or from the stamp of its pack, which a clone has. Equal parts of
    summaries are one object, as thousands of runs share an environment.
    """
    known: dict[str, Any] = {}

    def shown(summary: Summary) -> Summary:
        return {name: known.setdefault(json.dumps(summary[name]), summary[name]) for name in SHOWN}

    runs = collected.runs[collected.runs["state"] == "finished"]
    directories = [workspace.run_at(run) for run in runs["run"]]
    by_run = {run.digest: shown(summary) for run in directories if (summary := run.summary()) is not None}
    digests = {run.digest for run in directories}
    if len(by_run) < len(digests):
        for stamp in workspace.packs():
            told = stamp.finished().items()
            by_run |= {digest: shown(summary) for digest, summary in told if digest in digests}
    return by_run


def costs(collected: Collected, by_run: dict[str, Summary]) -> pd.DataFrame:
    """One row per method: means over its finished runs, and its highest memory (MB).

    The means are id and ood (percent), MB, forward and backward GMAC, and seconds. GMAC count the training of
    all networks of the method; a backward pass counts as two forward passes. NaN for values that were not
    counted, and for MB where one client holds all images, as nothing is sent.
    """
    runs = collected.runs[collected.runs["state"] == "finished"].copy()
    runs = runs.merge(selected(collected)[[*collected.keys, "id", "ood"]], on=collected.keys, how="left")
    counted = [by_run.get(digest, {}).get("costs", {}) for digest in runs["digest"]]
    runs = runs.assign(up=sent(runs, "up"), down=sent(runs, "down"), mmacs_image=runs["macs_per_image"] / 1e6)
    runs["sent"] = runs["up"] + runs["down"]
    for name, factor in (("forward", 1), ("backward", 2)):
        passes = pd.Series([cost.get(f"{name}_passes") for cost in counted], runs.index, dtype=float)
        runs[f"gmacs_{name}"] = passes * factor * runs["macs_per_image"] / 1e9
    means = ["id", "ood", "up", "down", "sent", "mmacs_image", "gmacs_forward", "gmacs_backward", "seconds"]
    groups = runs.groupby("method", sort=False)
    table = groups[means].mean().assign(memory=groups["peak_memory_mb"].max(), runs=groups.size())
    return table.reset_index()


def partitions(workspace: Workspace, collected: Collected, by_run: dict[str, Summary]) -> dict[str, Path]:
    """Pictures of the first seed's partitions, by title: data set, scheme, parameters and held-out domain.

    Methods share partitions. A picture is left out if it is absent, or if a run of other code was trained on
    another partition.
    """
    pictures: dict[str, Path] = {}
    runs = collected.runs.sort_values("seed", kind="stable") if "seed" in collected.keys else collected.runs
    for row in runs[runs["digest"].isin([*by_run])].to_dict("records"):
        summary = by_run[row["digest"]]
        split = json.loads(row["spec"])["partition"]
        held_out = [f"held out: {summary['target']}"] if summary["target"] else []
        settings = [f"{key} = {value}" for key, value in dotted({**split["params"], **split["modify"]})]
        data = [summary["dataset"]] if "data.dataset" in collected.keys else []
        title = ", ".join([*data, split["scheme"], *settings, *held_out])
        if title not in pictures:
            path = workspace.partition(RunSpec.model_validate_json(row["spec"]).partition_name)
            there = path.is_file() and path.with_suffix(".png").is_file()
            if there and summary["hashes"]["partition"] == read_columns(path, CURE)[1]["hash"]:
                pictures[title] = path.with_suffix(".png")
    return pictures


def provenance(by_run: dict[str, Summary]) -> dict[str, list[tuple[str, int]]]:
    """Source of the numbers -> its values, each with the number of runs: code, images, versions, hardware."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run in by_run.values():
        environment = run["environment"]
        # The first digits of the commit that trained a run, `+` where files differed from it.
        commit = str(environment.get("commit") or "of no known commit")
        commit = commit[:7] + "+" * (" with " in commit) if commit[0] != "o" else commit
        versions = ", ".join(f"{name} {number}" for name, number in environment.get("versions", {}).items())
        counts["commit"][commit] += 1
        counts["images"][f"{run['dataset']} {run['hashes'].get('prepared', '?')[:16]}"] += 1
        counts["versions"][f"Python {environment.get('python', '?')}, {versions}"] += 1
        counts["hardware"][f"{hardware(environment)}, host {environment.get('host', '?')}"] += 1
    return {name: sorted(of.items()) for name, of in counts.items()}


def unfinished(collected: Collected) -> pd.DataFrame:
    """Counts of missing or failed runs: state, reason, method, the value on each axis, and n."""
    runs = collected.runs[collected.runs["state"] != "finished"].fillna({"failure": ""})
    axes = [key for key in collected.keys if key != "method"]
    listed = {axis: (axis, lambda values: ", ".join(map(str, dict.fromkeys(values)))) for axis in axes}
    groups = runs.groupby(["state", "failure", "method"], sort=False)
    return groups.agg(n=("run", "size"), **listed).reset_index()


def write(workspace: Workspace, names: Sequence[str], name: str) -> Path:
    """Write results/report/<name>/index.html, with scores.json and curves.csv for DVC next to it.

    scores.json: experiment -> method -> id, ood in percent, runs. curves.csv: id and ood after each round.

    An experiment that was not collected is listed as absent. Raises FedshiftError if none was collected.
    """
    present = [name for name in names if workspace.metrics(name).is_file()]
    if not present:
        where, fix = workspace.metrics(names[0]).parent, f"Run `fedshift collect {names[0]}` first."
        raise FedshiftError(where, "no runs have been collected", fix)
    collected = [read(workspace, name) for name in present]
    title = collected[0].experiment.title if len(names) == 1 else f"{len(names)} experiments"
    path, card = workspace.report(name) / "index.html", workspace.scorecard
    parts = [_part(workspace, of) for of in collected]
    last = pd.concat([of.runs["finished"] for of in collected]).dropna().max()
    html = template("report.html.j2").render(
        title=title,
        version=__version__,
        commit=commit(),
        scorecard=os.path.relpath(card, path.parent) if card.is_file() else "",
        parts=parts,
        absent=[name for name in names if name not in present],
        finished="" if pd.isna(last) else f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC",
    )
    write_text(path, html)
    scores = {part["experiment"].name: {of["method"]: _scores(of) for of in part["costs"]} for part in parts}
    write_json(path.with_name("scores.json"), scores)
    write_text(path.with_name("curves.csv"), pd.concat(map(_curves, collected)).to_csv(index=False))
    return path


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    """Values that were measured."""
    numbers = {"id": row["id"], "ood": row["ood"], "finished": row["runs"]}
    return {name: round(value, 4) for name, value in numbers.items() if not pd.isna(value)}


def _curves(collected: Collected) -> pd.DataFrame:
    """Columns panel (experiment and axes), method, round, id and ood (percent, mean over seeds)."""
    frame = curves(collected)
    axes = [frame[key] for key in collected.keys if key not in ("method", "seed")]
    places = zip([collected.experiment.name] * len(frame), *axes, strict=True)
    panel = [", ".join(str(part) for part in place if not pd.isna(part)) for place in places]
    by = ["panel", "method", "round"]
    means = frame.assign(panel=panel).groupby(by, sort=False)[["id", "ood"]].mean()
    return means.round(2).reset_index()


def _part(workspace: Workspace, collected: Collected) -> dict[str, Any]:
    """What the page shows of an experiment."""
    experiment, known = collected.experiment, summaries(workspace, collected)
    runs = collected.runs if experiment.train else collected.runs[:0]
    states = runs["state"].value_counts().reindex(["finished", "failed", "missing"], fill_value=0)
    file = workspace.root / "experiments" / f"{experiment.name.removesuffix(TUNING)}.yaml"
    part = {
        "experiment": experiment,
        "anchor": experiment.name.replace("/", "-"),
        "counts": {"runs": len(runs), **states.to_dict()},
        "axes": [key for key in collected.keys if key != "method"],
        "unfinished": unfinished(collected).to_dict("records") if collected.missing else [],
        "file": f"{file.relative_to(workspace.root)}, sha256 {sha256_file(file)[:16]}",
        **results(workspace, collected, with_tables=bool(known) or not experiment.train),
        **{name: [] for name in ("figures", "partitions", "costs")},
        "undrawn": {},
        "sentence": "No run is finished.",
    }
    if not known and experiment.train:
        return part
    spent = costs(collected, known)
    part["sentence"] = " ".join(_sentences(collected, part, spent))
    if not known:
        return part
    possible, impossible = plots(workspace, collected)
    return part | {
        "figures": [*map(_figure, possible.values())],
        "undrawn": {name: str(error) for name, error in impossible.items()},
        "partitions": [
            {"text": title, "image": data_address("image/png", picture.read_bytes())}
            for title, picture in partitions(workspace, collected, known).items()
        ],
        "costs": spent.to_dict("records"),
        "against_costs": _figure(against_costs(collected, spent)),
        "provenance": provenance(known),
    }


def _sentences(collected: Collected, part: Mapping[str, Any], spent: pd.DataFrame) -> Iterator[str]:
    """The results of an experiment in sentences, before its details."""
    if (runs := part["counts"])["runs"]:
        yield f"{runs['finished']} of {runs['runs']} runs are finished."
    metric, where = ("ood", "On held-out domains") if spent["ood"].notna().any() else ("id", "On test images")
    best = spent.dropna(subset=metric).sort_values(metric, ascending=False, kind="stable").head(LEADING)
    if len(best) > 1:
        first, *others = (f"{row['method']} {row[metric]:.1f}" for row in best.to_dict("records"))
        yield f"{where}, over all of a method's runs: {first}%, then {', '.join(others)}."
    frames = pd.concat([pd.DataFrame({"verdict": [], "rule": [], "uid": []}), *part["cells"].values()])
    cells = frames[frames["verdict"] != ""].drop_duplicates("uid")
    for what, words in (
        ("published numbers", cells.loc[cells["rule"] != COUNTED, "verdict"]),
        ("sizes and layers", cells.loc[cells["rule"] == COUNTED, "verdict"]),
        ("comparisons", part["compared"].drop_duplicates("claim")["verdict"]),
    ):
        counts = Counter(words)
        if listed := ", ".join(f"{counts[word]} {word}" for word in (*WORDS, *OUTCOMES) if counts[word]):
            yield f"Of {counts.total()} {what} {listed}."
    with contextlib.suppress(FedshiftError):  # too few runs are finished to rank methods
        if (result := ranking([collected], "ood")).seeds > 1:
            yield result.sentence


def _figure(plot: Plot) -> dict[str, Any]:
    """A figure as on the page: title, note, alternative text, picture, and the pixels it needs."""
    columns = max([1, *plot.frame.groupby(["row", "y_axis"])["panel"].nunique()])
    return {
        "title": plot.title,
        "note": plot.note,
        "text": plot.text,
        "image": data_address("image/svg+xml", svg(plot).encode()),
        "width": round(INCH * plot.size[0] * columns),
        "photo": bool(plot.pictures),
    }


def against_costs(collected: Collected, costs: pd.DataFrame) -> Plot:
    """Accuracy of every method against its communication, if any, and against its seconds."""
    metric, name = ("ood", "out-of-distribution") if costs["ood"].notna().any() else ("id", "in-distribution")
    frame = costs.rename(columns={"method": "label", metric: "y"})
    frame = frame.melt(["label", "y"], [*COSTS], "panel", "x").dropna(subset="x").replace({"panel": COSTS})
    x, y = Axis("cost of a run", from_zero=True), Axis(f"{name}\naccuracy (%)")
    return Plot("Accuracy against cost", frame, x, y, collected.experiment.rows, size=(3.6, 3.0))
