"""Facts of a report about runs: their summaries, costs by method, where numbers come from, what is not
there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.costs import sent
from fedshift.analysis.quantities.select import selected
from fedshift.archive.machine import hardware
from fedshift.data.partition import partition_hash
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

Summary = dict[str, Any]
SHOWN = ("dataset", "method", "target", "clients", "environment", "hashes", "costs")


def summaries(workspace: Workspace, collected: Collected) -> dict[str, Summary]:
    """What the page says (SHOWN) of the summary of each finished run, by digest: from its
    directory, or from a pack's stamp, which a clone has.

    Equal parts of summaries are one object: thousands of runs share an environment.
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
    """One row per method: means over its finished runs of id, ood (percent), MB, forward and backward GMAC,
    seconds; its highest memory (MB).

    NaN: what was not counted, and MB where one client holds all images and nothing travels. GMAC: what
    training took, all networks of the method; a backward pass is counted as two forward ones.
    """
    runs = collected.runs[collected.runs["state"] == "finished"].copy()
    runs = runs.merge(selected(collected)[[*collected.keys, "id", "ood"]], on=collected.keys, how="left")
    counted = [by_run.get(digest, {}).get("costs", {}) for digest in runs["digest"]]
    runs["up"], runs["down"] = sent(runs, "up"), sent(runs, "down")
    runs["sent"] = runs["up"] + runs["down"]
    runs["mmacs_image"] = runs["macs_per_image"] / 1e6
    for name, factor in (("forward", 1), ("backward", 2)):
        passes = pd.Series([cost.get(f"{name}_passes") for cost in counted], runs.index, dtype=float)
        runs[f"gmacs_{name}"] = passes * factor * runs["macs_per_image"] / 1e9
    means = ["id", "ood", "up", "down", "sent", "mmacs_image", "gmacs_forward", "gmacs_backward", "seconds"]
    groups = runs.groupby("method", sort=False)
    table = groups[means].mean().assign(memory=groups["peak_memory_mb"].max(), runs=groups.size())
    return table.reset_index()


def partitions(workspace: Workspace, collected: Collected, by_run: dict[str, Summary]) -> dict[str, Path]:
    """Pictures of who holds what, of the first seed, each under what it shows: scheme, its parameters and the
    held-out domain.

    Methods share partitions; a picture is left out where it is absent, or where a run of other code was
    trained on another partition.
    """
    pictures: dict[str, Path] = {}
    runs = collected.runs.sort_values("seed", kind="stable") if "seed" in collected.keys else collected.runs
    for row in runs.to_dict("records"):
        if (summary := by_run.get(row["digest"])) is None:
            continue
        split = json.loads(row["spec"])["partition"]
        held_out = [f"held out: {summary['target']}"] if summary["target"] else []
        settings = [f"{key} = {value}" for key, value in split["params"].items()]
        title = ", ".join([split["scheme"], *settings, *held_out])
        path = workspace.partition(RunSpec.model_validate_json(row["spec"]).partition_name)
        picture = path.with_suffix(".png")
        there = title not in pictures and path.is_file() and picture.is_file()
        if there and summary["hashes"]["partition"] == partition_hash(path):
            pictures[title] = picture
    return pictures


def provenance(by_run: dict[str, Summary]) -> dict[str, list[tuple[str, int]]]:
    """Source of the numbers -> its values, each with the number of runs: code by method, versions, hardware,
    data.
    """
    runs = list(by_run.values())
    environments = [run["environment"] for run in runs]
    return {
        "commit": _counted(f"{run['method']} {_commit(run)}" for run in runs),
        "images": _counted(f"{run['dataset']} {run['hashes'].get('prepared', '?')[:16]}" for run in runs),
        "versions": _counted(
            f"Python {environment.get('python', '?')}, "
            + ", ".join(f"{name} {number}" for name, number in environment.get("versions", {}).items())
            for environment in environments
        ),
        "hardware": _counted(
            f"{hardware(environment)}, host {environment.get('host', '?')}" for environment in environments
        ),
    }


def _commit(run: Summary) -> str:
    """The first digits of the commit that trained a run, `+` where files differed from it."""
    commit = str(run["environment"].get("commit") or "of no known commit")
    return commit[:7] + "+" * (" with " in commit) if commit[0] != "o" else commit


def _counted(values: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(values).items())


def listed(collected: Collected, by_run: dict[str, Summary]) -> list[dict[str, Any]]:
    """Directory, seconds, and the first digits of the content hashes of each finished run."""
    rows = []
    runs = collected.runs[collected.runs["state"] == "finished"].drop_duplicates("run")
    for directory, digest in zip(runs["run"], runs["digest"], strict=True):
        if run := by_run.get(digest):
            short = {name: value[:12] for name, value in run["hashes"].items()}
            hashes = {
                "partition": short.get("partition"),
                "prepared": short.get("prepared"),
                "weights": short.get("weights_last"),
            }
            rows.append({"directory": directory, "seconds": run["costs"]["seconds"], **hashes})
    return rows


def unfinished(collected: Collected) -> pd.DataFrame:
    """Runs that are missing or failed, counted: state, reason, method, then values of each axis; n."""
    runs = collected.runs[collected.runs["state"] != "finished"].fillna({"failure": ""})
    axes = [key for key in collected.keys if key != "method"]
    listed = {axis: (axis, lambda values: ", ".join(map(str, dict.fromkeys(values)))) for axis in axes}
    groups = runs.groupby(["state", "failure", "method"], sort=False)
    return groups.agg(n=("run", "size"), **listed).reset_index()
