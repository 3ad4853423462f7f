"""The archive keeps what a search chose, so that a clone has the tables of a tuned experiment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from fedshift.analysis.collection.uses import choice_now, search
from fedshift.archive import choices
from fedshift.cli.scorecard import _archived
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import TINY
from tests.once import once
from tests.verbs import done, fedshift, refused

TUNED = {
    **TINY,
    "title": "Tuned",
    "spec": {"federation": {"rounds": 1}, "local": {"epochs": 1}},
    "methods": {"fedavg": None},
    "tune": {"budget": 2, "seeds": [100]},
}


def train(root: Path) -> None:
    """Train what the plan of `tuned` has now."""
    plan = str(root / done(fedshift(root, "plan", "tuned", "--print", "path")).strip())
    done(fedshift(root, "partition", "--plan", plan))
    for pack in sorted({run.pack for run in planfile.runs(Path(plan))}):
        done(fedshift(root, "train", "--plan", plan, "--pack", pack))


@pytest.fixture(scope="module")
def tuned(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose experiment `tuned` was searched, trained and archived."""

    def make(root: Path) -> None:
        shutil.copytree(trained, root, symlinks=True, dirs_exist_ok=True)
        (root / "experiments" / "tuned.yaml").write_text(yaml.safe_dump(TUNED, sort_keys=False))
        train(root)
        done(fedshift(root, "collect", "tuned.tuning"))
        done(fedshift(root, "tune", "tuned"))
        train(root)
        assert "what its search chose" in done(fedshift(root, "archive", "tuned"))

    return once(tmp_path_factory, "tuned", make)


@pytest.fixture
def clone(tuned: Path, tmp_path: Path) -> Workspace:
    """What git brings of it."""
    root = tmp_path / "clone"
    for name in ("experiments", "reference", "results-archive"):
        shutil.copytree(tuned / name, root / name)
    return Workspace(root)


def file_of(workspace: Workspace) -> Path:
    (path,) = choices.files(workspace)
    return path


def rewritten(workspace: Workspace, **fields: object) -> Path:
    """The choice with other content, under the name that this has: who doctors it can do that."""
    path = file_of(workspace)
    data = (canonical_json({**json.loads(path.read_text()), **fields}) + "\n").encode()
    path.unlink()
    new = path.with_name(f"{path.name.partition('-')[0]}-{sha256(data)[:12]}.json")
    new.write_bytes(data)
    return new


def test_a_clone_shows_the_table_of_a_tuned_experiment(tuned: Path, clone: Workspace) -> None:
    for root in (tuned, clone.root):
        done(fedshift(root, "collect", "tuned"))
        done(fedshift(root, "table", "tuned"))
    ours, theirs = (
        pd.read_csv(Workspace(root).tables("tuned") / "table.csv") for root in (tuned, clone.root)
    )
    pd.testing.assert_frame_equal(ours.drop(columns="archived"), theirs.drop(columns="archived"))
    assert theirs["mean"].notna().all() and {*theirs["archived"]} == {1}


def test_a_clone_without_the_choice_shows_nothing(clone: Workspace) -> None:
    """So it is the choice that the table rests on, not the untuned run."""
    file_of(clone).unlink()
    refused(fedshift(clone.root, "table", "tuned"), "no run of it is finished here or archived")


def test_a_choice_is_archived_once(tuned: Path) -> None:
    workspace = Workspace(tuned)
    before = file_of(workspace)
    assert choices.add(workspace, "tuned", search(workspace, load(workspace, "tuned"))) == (None, [])
    assert file_of(workspace) == before


def test_of_a_changed_method_it_counts_and_of_another_version_it_does_not(
    clone: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedshift.identity.fingerprint", lambda *modules: "0ther001")
    assert choice_now(clone, load(clone, "tuned")) is not None
    monkeypatch.setattr("fedshift.identity.ENGINE_VERSION", 99)
    assert choice_now(clone, load(clone, "tuned")) is None


def test_another_search_has_another_choice(clone: Workspace) -> None:
    path = clone.experiments / "tuned.yaml"
    more = {**TUNED, "tune": {"budget": 3, "seeds": [100]}}
    path.write_text(yaml.safe_dump(more, sort_keys=False))
    assert choice_now(clone, load(clone, "tuned")) is None


def test_the_archived_choice_trains_nothing(clone: Workspace) -> None:
    """As archived runs are no reason not to train: the plan of the clone has the search, and no final run."""
    (run, *others) = planfile.runs(
        clone.root / done(fedshift(clone.root, "plan", "tuned", "--print", "path")).strip()
    )
    assert {run.seed, *(other.seed for other in others)} == {100}


def test_check_covers_choices(clone: Workspace) -> None:
    assert "1 choices of tuned experiments." in done(fedshift(clone.root, "archive", "--check"))
    file_of(clone).write_bytes(b"{}")
    refused(fedshift(clone.root, "archive", "--check"), "has other bytes than when it was archived")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"format": 2}, "is of format 2, and this code reads 1"),
        ({"experiment": "other"}, "belongs to 'other', or to another search"),
        ({"digests": ["0" * 16]}, "belongs to 'tuned', or to another search"),
        ({"surplus": 1}, "unknown key 'surplus'"),
        (
            {"searched": "method,target,local.lr,validation,std,runs,chosen\n"},
            "is not the best that it tried",
        ),
        ({"searched": "nothing"}, "is not the best that it tried"),
    ],
)
def test_a_doctored_choice_is_refused(clone: Workspace, fields: dict[str, object], what: str) -> None:
    path = rewritten(clone, **fields)
    with pytest.raises(FedshiftError, match=what):
        choices.check(clone, path)


def test_values_that_were_not_tried_are_refused(clone: Workspace) -> None:
    content = json.loads(file_of(clone).read_text())
    (chosen,) = content["chosen"]
    path = rewritten(clone, chosen=[{**chosen, "values": dict.fromkeys(chosen["values"], 9.0)}])
    with pytest.raises(FedshiftError, match="is not the best that it tried"):
        choices.check(clone, path)


def test_two_choices_of_one_search_are_refused(clone: Workspace) -> None:
    path = file_of(clone)
    data = path.read_bytes()
    rewritten(clone, rule="best_first")
    path.write_bytes(data)
    refused(fedshift(clone.root, "archive", "--check"), "holds two choices of the search")


def test_a_scorecard_knows_the_runs_of_an_archived_choice(clone: Workspace) -> None:
    assert [*_archived(clone)] == ["tuned"]
    file_of(clone).unlink()
    assert [*_archived(clone)] == []
