"""The examples in the pages for plug-in authors work."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples.gap import Gap
from examples.hardest import Hardest
from fedshift.analysis.metrics.base import Metric
from fedshift.common import registry
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.records import BINS
from fedshift.spec.block import params
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import diagnosed, finish, method, quadratics, small, spec
from tests.analysis.conftest import Project, accuracy
from tests.conftest import ROOT
from tests.documents import python_block
from tests.evaluations.test_contract import restored


def printed(page: str, name: str) -> Any:
    """The class that a Python block of a page defines."""
    defined: dict[str, Any] = {"__name__": page}
    exec(compile(python_block(page, f"class {name}("), page, "exec", dont_inherit=True), defined)
    return defined[name]


def test_the_experiment_that_the_methods_page_prints_is_planned(project: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", (ROOT / "docs" / "add-a-method.md").read_text(), re.DOTALL)
    assert block is not None
    (project / "experiments" / "mine.yaml").write_text(block[1])
    cells = expand(Workspace(project), load(Workspace(project), "mine"))
    assert [(cell.label, cell.spec.data.target) for cell in cells] == [
        ("fedavg", "texture"),
        ("fedprox", "texture"),
    ]
    assert cells[1].spec.method.params == {"mu": 0.1}


def test_the_method_that_the_page_prints_is_fedprox() -> None:
    chosen = printed("add-a-method.md", "FedProx")
    run = spec(federation={"rounds": 1})
    one, other = (finish(small(run, of)) for of in (chosen(), method("fedprox")))
    assert one.server.row.equal(other.server.row)


def test_the_model_that_the_page_prints_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds what every network holds."""
    from tests.models.test_base import TestEveryModel  # here, or pytest would collect it in this file too

    tiny_model = printed("extend.md", "Tiny")
    monkeypatch.setattr(registry, "get", lambda kind, name: {"tiny": tiny_model}[name])
    every, tests = TestEveryModel(), [name for name in vars(TestEveryModel) if name.startswith("test_")]
    for name in tests:
        getattr(every, name)("tiny")
    assert len(tests) == 5


@pytest.mark.parametrize("relative", [False, True])
def test_the_figure_that_the_page_prints_is_the_examples(tmp_path: Path, relative: bool) -> None:
    """Two seeds, gaps of 20 and 30 points at 50 in distribution; by hand, by the page, by the package."""
    project = Project(tmp_path)
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0, 1]})
    for target in ("a", "b"):
        for seed, ood in ((0, 0.3), (1, 0.2)):
            project.add("fedavg", {1: accuracy((0.5, 0.5), ood=ood)}, target=target, seed=seed)
    collected = project.collect()
    kinds = printed("extend.md", "Gap"), Gap
    page, package = (
        kind(params(kind, {"relative": relative})).plot(Workspace(tmp_path), collected) for kind in kinds
    )
    values = package.frame
    assert page.frame.equals(values) and page.y == package.y
    assert values["y"].tolist() == pytest.approx([40, 60, 50] if relative else [20, 30, 25])
    assert values["mark"].tolist() == ["seed", "seed", "mean"]
    assert package.y.label.endswith("(%)" if relative else "(points)")


def test_the_evaluation_that_the_page_prints_is_the_examples(tmp_path: Path) -> None:
    """The three images of each client, and of the target, with the greatest loss, by the page and by the package."""
    _, run = restored("fedavg", tmp_path)
    kinds = printed("extend.md", "Hardest"), Hardest
    page, package = (kind(params(kind, {"images": 3}), method("fedavg")).table(run) for kind in kinds)
    assert page.equals(package) and page.num_rows == 3 * 4
    ((row, index),) = ((row, index) for place, row, index in run.sets(["target"]))
    model = run.network.bind(row).model.eval()
    with torch.no_grad():
        pixels, y = run.samples.take(index)
        losses = torch.nn.functional.cross_entropy(
            model(run.samples.evaluate(pixels)).logits, y, reduction="none"
        )
    found = page.to_pandas().query("split == 'target'")
    assert found["sample"].tolist() == index[losses.argsort(descending=True)[:3]].tolist()
    assert found["loss"].tolist() == pytest.approx(losses.sort(descending=True).values[:3].tolist(), rel=1e-5)


def test_the_metric_that_the_page_prints_is_one() -> None:
    """Of 2 sets of 4 and 2 samples: confidence .6 and .8 beside accuracies of .5 and 1."""
    metric = printed("extend.md", "Overconfidence")
    assert issubclass(metric, Metric) and metric.reads() == ["right", "wrong", "confidence"]
    right, wrong, confidence = (np.zeros((2, BINS)) for _ in range(3))
    right[:, -1], wrong[0, 0], confidence[:, 3] = [2, 2], 2, [2.4, 1.6]
    assert metric.compute(right, wrong, confidence).tolist() == pytest.approx([0.1, -0.2])


def test_the_diagnostics_that_the_page_prints_are_recorded() -> None:
    """A step of 0.1 from 3 on h / 2 (w - c)^2: updates of 0.1 h (3 - c), two down and one up."""
    chosen = printed("extend.md", "Watched")()
    found = diagnosed(finish(quadratics(chosen, [1.0, 2.0, 1.0], [0.0, 1.0, 5.0], 3.0, 0.1, 1, 1)))
    drift = {client: values[0] for (name, _, client), values in found.items() if name == "drift"}
    assert drift == pytest.approx({0: 0.3, 1: 0.4, 2: 0.2})
    agreement = {client: values for (name, _, client), values in found.items() if name == "agreement"}
    assert agreement == {0: {0: 1, 1: 1, 2: -1}, 1: {0: 1, 1: 1, 2: -1}, 2: {0: -1, 1: -1, 2: 1}}
