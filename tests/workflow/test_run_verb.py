"""`fedshift run` and targets of experiments that params.yaml does not list, with real snakemake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace
from tests.workflow.checkout import Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """`demo` is listed, `papers/other` is not."""
    root = tmp_path_factory.mktemp("checkout")
    made = Checkout.made(root, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    (root / "experiments" / "papers").mkdir()
    other = tiny("Other", "local") + "figures: [curves, ranks]\n"  # one method is not ranked
    (root / "experiments" / "papers" / "other.yaml").write_text(other)
    return made


def test_a_home_that_cannot_be_written_is_not_needed(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    status, output = run(checkout, "demo", "--", "--dry-run")
    assert status == 0, output
    assert (checkout.root / ".cache" / "snakemake").is_dir()


def run(checkout: Checkout, *arguments: str) -> tuple[int, str]:
    """Exit status and output."""
    with checkout.verb("run", *arguments) as process:
        output, _ = process.communicate()
    return process.returncode, output


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("results/tables/papers/other/table.csv", "'experiments=[papers/other]' -- results/tables/papers/other/table.csv"),
        ("results/figures/papers/other", "'experiments=[papers/other]' -- results/figures/papers/other"),
        ("results/metrics/papers/other.parquet", "--config 'experiments=[papers/other]' -- results/metrics"),
        ("results/report/papers/other/index.html", "fedshift run papers/other"),
    ],
)  # fmt: skip
def test_a_target_that_is_not_asked_for_says_what_to_type(
    checkout: Checkout, target: str, command: str
) -> None:
    result = checkout.snakemake("--dry-run", "--", target)
    assert result.returncode == 1
    assert "WorkflowError" in result.stdout and command in result.stdout, result.stdout
    assert "MissingRuleException" not in result.stdout


def test_a_chosen_experiment_leaves_a_cluster_its_device(checkout: Checkout) -> None:
    """Snakemake drops a profile's `config` for a `--config` on the command line."""
    result = checkout.snakemake("--dry-run", "--config", "experiments=[papers/other]", profile="slurm")
    assert result.returncode == 0, result.stdout
    request = planfile.request(Workspace(checkout.root), checkout.plan)
    assert (request.device, request.experiments) == ("cuda", ("papers/other",))


def test_options_and_targets_are_passed_on(checkout: Checkout) -> None:
    code, output = run(checkout, "papers/other", "--", "results/metrics/papers/other.parquet", "--dry-run")
    assert code == 0 and "rule collect:" in output and "rule table:" not in output, output
    code, output = run(checkout, "papers/other", "--", "--dry-run", "--config", "pack=3", "graph=auto")
    assert code == 0 and "rule table:" in output, output
    request = planfile.request(Workspace(checkout.root), checkout.plan)
    assert (request.pack, request.graph, request.experiments) == (3, "auto", ("papers/other",))
    code, output = run(checkout, "papers/other", "--", "no/such/target")
    assert code == 1 and "MissingRuleException" in output, output


def test_an_experiment_that_is_not_listed_is_made_whole(checkout: Checkout) -> None:
    code, output = run(checkout, "papers/other")
    assert code == 0, output
    tables = checkout.root / "results" / "tables"
    assert (tables / "papers" / "other" / "table.csv").is_file() and not (tables / "demo").exists()
    assert (checkout.root / "results" / "report" / "papers" / "other" / "index.html").is_file()
    assert (checkout.root / "results" / "figures" / "papers" / "other" / "curves.svg").is_file()
    assert "papers/other: not drawn: ranks: " in output and "1 of 1 runs, local on plain" in output
    assert "Nothing to be done" in run(checkout, "papers/other")[1]


@pytest.fixture
def broken(checkout: Checkout) -> Iterator[Checkout]:
    """Every `fedshift table` fails."""
    line = "    collected = collected_or_archived(workspace, experiment)\n"
    checkout.edit("src/fedshift/cli/results.py", line, failing := f"    raise ValueError('no table')\n{line}")
    yield checkout
    checkout.edit("src/fedshift/cli/results.py", failing, line)


def test_what_a_job_that_failed_wrote_is_repeated_at_the_end(broken: Checkout) -> None:
    """profiles/local hides it (`quiet: rules`); all that was seen was the job's command."""
    target = "results/tables/papers/other/table.csv"
    (broken.root / target).unlink(missing_ok=True)
    result = broken.snakemake(
        "--config", "experiments=[papers/other]", "--", target, profile="profiles/local"
    )
    assert result.returncode == 1
    end = result.stdout.partition("Exiting because a job execution failed")[2]
    assert "logs/table/papers/other.log:" in end and "ValueError: no table" in end, result.stdout
    assert "Which runs failed, and why: fedshift status papers/other" in end


def test_a_name_may_hold_blanks_and_plus_signs(broken: Checkout) -> None:
    name = "papers/other 1+x"
    (broken.root / "experiments" / f"{name}.yaml").write_text(tiny("Other", "local"))
    table = f"results/tables/{name}/table.csv"
    words = ["--config", f"experiments=[{name}]", "--", table, f"results/report/{name}/index.html"]
    result = broken.snakemake(*words, profile="profiles/local")
    assert (broken.root / "results" / "report" / name / "index.html").is_file(), result.stdout
    assert result.returncode == 1
    end = result.stdout.partition("Exiting because a job execution failed")[2]
    assert f"logs/table/{name}.log:" in end and "ValueError: no table" in end, result.stdout
