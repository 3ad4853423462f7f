"""From prepared digits to a verdict on each number of a paper that prints what was just measured, or not."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from fedshift.planning import planfile
from tests.verbs import done, fedshift

SHORT = {"federation": {"rounds": 1}, "local": {"epochs": 3}}
TOY: dict[str, Any] = {
    "title": "A toy paper's Table 1",
    "paper": "Toy",
    "protocol": "digits",
    "spec": SHORT,
    "methods": {"fedavg": None, "local": None, "fedprox": None},
    "axes": {"target": ["plain"], "seed": [0, 1, 2]},
    "tables": {"one": {"printed": ["1"], "columns": ["target"]}},
}
KEY = "digits/digits_cnn/lodo/domain_per_client/{method}/default/{target}"
MARGIN = 80.0  # three seeds of one round differ by ten points and more


def printed(method: str, metric: str, value: float, judged: float | None = None) -> dict[str, Any]:
    """A row of reference/published.csv, without a spread; judged: NaN for a slip."""
    return {
        "paper": "Toy", "table": "1", "dataset": "Digits", "mean": value, "row_uid": f"{method} {metric}", "ds_id": "digits",
        "backbone": "digits_cnn", "protocol": "lodo", "partition": "domain_per_client", "algo": method, "variant": "default",
        "target": "plain", "metric_id": f"acc_{metric}", "n_seeds": "3", "value_kind": "printed", "note": "misprinted",
        "value_judge": value if judged is None else judged, "run_key": KEY.format(method=method, target="plain"),
    }  # fmt: skip


@pytest.mark.slow
def test_a_table_in_miniature(project: Path, tmp_path_factory: Any) -> None:
    """Printed: what was measured; 180 points off; off by the margin; a slip; of a method that was not trained."""
    ours_alone = {**TOY, "paper": "", "tables": {"one": {"columns": ["target"]}}}
    (project / "experiments" / "toy.yaml").write_text(yaml.safe_dump(ours_alone))
    path = project / done(fedshift(project, "plan", "toy", "--print", "path")).strip()
    done(fedshift(project, "partition", "--plan", str(path)))
    for pack in {run.pack for run in planfile.runs(path) if run.method != "fedprox"}:
        done(fedshift(project, "train", "--plan", str(path), "--pack", pack))
    done(fedshift(project, "collect", "toy"))
    done(fedshift(project, "table", "toy"))
    found = pd.read_csv(project / "results" / "tables" / "toy" / "one.csv").query("target == 'plain'")
    ours = found.set_index(["method", "metric"])["mean"]

    paper = tmp_path_factory.mktemp("paper") / "project"  # what is printed is read once for each project
    shutil.copytree(project, paper, symlinks=True)
    shutil.rmtree(paper / "experiments")  # of other papers
    (paper / "experiments").mkdir()
    (paper / "experiments" / "toy.yaml").write_text(yaml.safe_dump({**TOY, "published": {"*": KEY}}))
    reference = paper / "reference"
    rows = [
        printed("fedavg", "id", ours["fedavg", "id"]),
        printed("fedavg", "ood", ours["fedavg", "ood"] + 180),
        printed("local", "id", ours["local", "id"] - MARGIN),
        printed("local", "ood", 12.0, judged=float("nan")),
        printed("fedprox", "ood", 50.0),
    ]
    columns = pd.read_csv(reference / "published.csv", nrows=0).columns
    pd.DataFrame(rows).reindex(columns=columns).to_csv(reference / "published.csv", index=False)
    known = yaml.safe_load((reference / "published.yaml").read_text())
    known["margins"]["Toy"] = {"points": {"digits": MARGIN}, "percent": 25.0, "why": "a toy's"}
    known["protocols"] = {"Toy": {"lodo/domain_per_client": {"protocol": "digits", "spec": SHORT}}}
    known["backbones"] = {"digits_cnn": "digits_cnn"}
    (reference / "published.yaml").write_text(yaml.safe_dump(known))

    shown = done(fedshift(paper, "table", "toy"))
    assert "| 1 | 3 |" in shown
    judged = pd.read_csv(paper / "results" / "tables" / "toy" / "table.csv").set_index(["method", "metric"])
    words = judged["verdict"].dropna().to_dict()
    assert words["fedavg", "id"] == "consistent" and words["fedavg", "ood"] == "different"
    assert {*words} == {("fedavg", "id"), ("fedavg", "ood"), ("local", "id")}
    assert "is a slip" in judged.loc[("local", "ood"), "remark"]
    assert "Scorecard" in Path(done(fedshift(paper, "scorecard")).strip()).read_text()
    assert "| Toy 1 | 5 |" in (paper / "results" / "scorecard.md").read_text()
