"""Notes below tables: policies, mixtures, code, and what columns mean."""

from fedshift.analysis import tables
from fedshift.analysis.notes import notes

from .conftest import Project, accuracy


def test_footnotes_name_policies_and_mixtures(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {"metrics": ["id"]}}
    )
    for seed, device in enumerate(("cpu", "H200")):
        project.add("fedavg", {0: accuracy((0.5, 0.5))}, device=device, seed=seed)
        project.add(
            "fedbn",
            {0: accuracy((0.5, 0.5))},
            bn="local",
            stage="post_train",
            model="personal",
            seed=seed,
        )
    text = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert "- Ours, not a paper's" in text  # the protocol's own note
    assert "Clients weighed in the average: by training images." in text
    assert "Batch-norm statistics: averaged like weights (fedavg); kept by each client (fedbn)." in text
    assert (
        "Evaluated: global model after aggregation (fedavg); personal model after local training (fedbn)."
        in text
    )
    assert "Mixed hardware: cpu, AVX2, threads: 1 (fedavg, fedbn); H200 (fedavg)." in text


def test_images_in_several_states_are_told_by_method(project: Project) -> None:
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {}})
    for label, seed in (("fedavg", 0), ("fedavg", 1), ("fedbn", 0)):
        project.add(label, {1: accuracy((0.5, 0.5))}, seed=seed)
    assert "Mixed images" not in "".join(notes(project.collect()))
    project.add("fedbn", {1: accuracy((0.5, 0.5))}, seed=1, images="0ther5")
    (line,) = (line for line in notes(project.collect()) if line.startswith("Mixed images"))
    assert line == (
        "Mixed images: digits original at 32 px come in 2 states, by other files or decoded otherwise: "
        "1ma9e5 (fedavg, fedbn); 0ther5 (fedbn)."
    )


def test_how_clients_are_weighed_is_told_by_method(project: Project) -> None:
    uniform = {"method": {"name": "fedavg"}, "federation": {"weights": "uniform"}}
    rows = {"fedavg": None, "uniform": uniform, "scaffold": None, "fdse": None}
    project.declare(methods=rows, axes={"seed": [0]}, tables={"t": {}})
    collected = project.add_all({1: accuracy((0.5, 0.5))})
    (line,) = (line for line in notes(collected) if line.startswith("Clients weighed"))
    assert line == (
        "Clients weighed in the average: by training images (fedavg); each alike, whatever its images "
        "(uniform, scaffold); by a rule of the method's own (fdse)."
    )


def test_runs_of_a_changed_method_are_named_and_counted(project: Project) -> None:
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {}})
    for label, seed in (("fedavg", 0), ("fedavg", 1), ("fedbn", 0), ("fedbn", 1)):
        project.add(label, {1: accuracy((0.5, 0.5))}, seed=seed)
    assert "has changed" not in "".join(notes(project.collect()))
    of_earlier = project.workspace.run_at(project.runs[1].directory)
    summary = of_earlier.summary() or {}
    of_earlier.finish({key: value for key, value in summary.items() if key != "method_code"})
    project.runs[:2] = [run._replace(code="0ther001") for run in project.runs[:2]]
    (line,) = (line for line in notes(project.collect()) if "has changed" in line)
    assert line.startswith(
        "The file of the method or model has changed since 1 of 4 runs were trained: fedavg (1)."
    )
    assert "fedshift plan --retrain-changed" in line
