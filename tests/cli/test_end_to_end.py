"""From prepared digits to a table and a figure, by the verbs alone."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from fedshift.planning import planfile
from tests.verbs import done, fedshift, refused

TINY = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 4}},
    "axes": {"target": ["plain"], "seed": [0]},
    "tables": {"targets": {"columns": ["target"]}},
}


@pytest.mark.parametrize(("lr", "learns"), [(0.2, True), pytest.param(0.0, False, marks=pytest.mark.slow)])
def test_an_experiment_by_the_verbs(project: Path, lr: float, learns: bool) -> None:
    """With a learning rate it reaches six times chance on the clients and three times on the held-out
    domain; with none it does not.
    """
    methods, results = {"fedavg": {"local": {"lr": lr, "epochs": 3 if learns else 1}}}, project / "results"
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, "methods": methods}))
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    done(fedshift(project, "partition", "--plan", str(path)))
    (run,) = planfile.runs(path)
    train = "train-pack", "--plan", str(path), "--pack", run.pack
    done(fedshift(project, *train))
    stamp = json.loads((results / "packs" / f"{run.stamp}.json").read_text())
    assert [*stamp["finished"]] == [run.digest]
    for verb in ("collect", "table", "figure"):
        done(fedshift(project, verb, "tiny"))
    assert set(pd.read_parquet(results / "metrics" / "tiny.parquet")["round"]) == {0, 1, 2, 3, 4}
    assert (results / "figures" / "tiny" / "curves.png").stat().st_size > 10_000
    table = pd.read_csv(results / "tables" / "tiny" / "table.csv").set_index("metric")["mean"]
    assert (table["id"] > 60 and table["ood"] > 30) == learns
    assert "starts at" not in done(fedshift(project, *train))

    here = project / run.directory
    here.rename(here.with_name(f"{run.digest}-0ther001"))  # as earlier versions named it
    assert "1 of 1 runs" in done(fedshift(project, "collect", "tiny"))
    assert "has changed" not in done(fedshift(project, "table", "tiny"))
    here.mkdir()  # as it is trained again
    refused(fedshift(project, "collect", "tiny"), "no run of it is finished here or archived")
