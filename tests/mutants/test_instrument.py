"""The random mutants' instrument: it draws what a seed says, notices what tests notice, and says what they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from cosmic_ray.mutating import mutate_code

from tests.conftest import ROOT
from tests.mutants.campaign import Campaign
from tests.mutants.draw import HEADLINES, Drawn, equivalents, of_method, sample
from tests.mutants.judge import Verdict, batches
from tests.mutants.operators import CODE, TENSOR
from tests.mutants.score import summary
from tests.mutants.sites import difference, files, sites

MEAN = "src/fedshift/federation/server.py"
NAMED = equivalents()


def test_our_operators_do_what_they_show() -> None:
    for kind in (*TENSOR, *CODE):
        for example in kind.examples():
            changed = mutate_code(example.pre_mutation_code, kind(), example.occurrence)
            assert changed is not None and changed.split() == example.post_mutation_code.split(), kind


def mutants(code: str) -> Counter[str]:
    """Operators that act in a file of this code."""
    return Counter(variant.operator for site in sites("file.py", code) for variant in site.variants)


def test_what_no_number_depends_on_is_left_alone() -> None:
    code = '''
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    X = 1 + 1
@equation("FDSE", 4 + 4)
class A:
    """1 + 1"""
    version = 3
    def f(self, x: dict[str | None, 3]) -> dict[int | None, 7]:
        y: int | None
        raise ValueError(f"{1 + 1}")
'''
    assert not mutants(code)
    assert mutants("class A:\n    k = 3\n")["NumberReplacer"] == 2


PLACES = [
    ("x.softmax(dim=-1)", "SwappedAxis", ["x.softmax(dim=0)"]),
    ("x.sum(2)", "SwappedAxis", []),
    ("(a @ b.T).sum()", "SwappedAxis", ["(a @ b).sum()"]),
    ("y = x.clone()", "DroppedCall", ["y = x"]),
    ("with torch.no_grad(): pass", "WrongReduction", ["with torch.enable_grad(): pass"]),
    ("mean = sum(x)", "WrongReduction", []),
    ("g = (p * x).sum()", "UniformForWeighted", ["g = ((p * 0 + 1 / len(p)) * x).sum()"]),
    ("g.add_(x, alpha=mu)", "SignFlip", ["g.add_(x, alpha=-(mu))"]),
    ("g = torch.exp(-x / t)", "SignFlip", ["g = torch.exp(-(-x / t))"]),
    ("s.softmax(1)", "SignFlip", []),
    ("f(t=1, k=S.t)", "OffByOneRound", ["f(t=1, k=(S.t + 1))", "f(t=1, k=(S.t - 1))"]),
    ("zip(a, b, strict=True)", "DroppedKeyword", []),
    ("x.var(0, correction=0)", "DroppedKeyword", ["x.var(0)"]),
    ("f(a, b.c)", "SwappedArguments", []),
]


def test_operators_know_their_places() -> None:
    for code, operator, changed in PLACES:
        found = [one for site in sites("file.py", code) for one in site.variants if one.operator == operator]
        assert [one.code(code) for one in found] == changed, code


def test_the_covered_lines_are_the_statement_s() -> None:
    code = "K = 1\ndef f(x=2):\n    if x > 3:\n        y = g(\n            4\n        )\n    return 5\n"
    numbers = [site.variants[0].lines for site in sites("f.py", code) if site.family == "NumberReplacer"]
    assert [list(lines) for lines in numbers] == [[*range(1, 9)], [*range(2, 8)], [3], [4, 5, 6], [7]]


def test_a_larger_sample_goes_on_where_a_smaller_ends() -> None:
    chosen = [file for file in files(ROOT) if "/methods/fedprox" in file or "/federation/optimizer" in file]
    few, many = (sample(ROOT, 3, count, chosen) for count in (4, 9))
    assert [one.key for one in many[:4]] == [one.key for one in few]
    assert [one.key for one in sample(ROOT, 4, 9, chosen)] != [one.key for one in many]


def test_a_headline_method_brings_its_layers() -> None:
    assert set().union(*map(of_method_, HEADLINES)) <= set(files(ROOT))
    assert "src/fedshift/methods/fdse/block.py" in of_method_("fdse")
    assert "src/fedshift/methods/fedrd.py" not in of_method_("fdse")


def of_method_(name: str) -> set[str]:
    return set(of_method(ROOT, name))


def test_fast_tests_come_first_in_small_groups() -> None:
    seconds = {"a": 1.0, "b": 1.5, "c": 5.0, "d": 5.0, "e": 100.0}
    assert [batch for batch, _ in batches(list(seconds), seconds)] == [["a", "b"], ["c", "d"], ["e"]]


def test_equivalent_mutants_are_some_of_the_present_code() -> None:
    """Else the list goes stale, and what it names is drawn again and survives."""
    for file, named in groupby(sorted(NAMED, key=lambda one: one.file), lambda one: one.key[0]):
        text = (ROOT / file).read_text()
        variants = [variant for site in sites(file, text) for variant in site.variants]
        for one in named:
            made = [v.code(text) for v in variants if (v.operator, v.within) == (one.operator, one.within)]
            assert (one.code, one.becomes) in [difference(text, code) for code in made if code], one
            assert len(one.reason.split()) >= 5


def of_the_mean() -> list[Drawn]:
    return sample(ROOT, 0, 100, [MEAN])


def test_an_equivalent_mutant_is_counted_and_not_played(tmp_path: Path) -> None:
    named = {one.key for one in NAMED}
    equal = [one for one in of_the_mean() if one.key in named]
    verdicts = Campaign(1, [], tmp_path, named).play(0, equal, again=False)
    assert [verdict.outcome for verdict in verdicts] == ["equivalent", "equivalent"]
    assert "| 2 | 0 | 0 | 0 | 0 | 2 |  |" in summary(verdicts, ROOT, "0123abc", 0, 1.0)


@pytest.mark.slow
def test_tests_kill_mutants_and_equivalent_ones_survive(tmp_path: Path) -> None:
    """All of the engine's average, in a process of its own, as `make mutants` starts it, with no mutant named equivalent."""
    (tmp_path / "none.yaml").write_text("[]")
    command = [sys.executable, "-m", "tests.mutants.campaign", "--jobs", "1", "--folder", str(tmp_path)]
    command += [
        "--only",
        MEAN,
        "--tests",
        "tests/methods/test_fedgma.py",
        "--equivalent",
        str(tmp_path / "none.yaml"),
    ]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=True)
    verdicts = [Verdict(**one) for one in json.loads((tmp_path / "seed-0.json").read_text())]
    assert len(verdicts) == len(of_the_mean())
    survived = {one.key for one in verdicts if one.outcome == "survived"}
    assert survived == {one.key for one in NAMED} & {one.key for one in of_the_mean()} != set()
    killed = [one for one in verdicts if one.outcome == "killed"]
    assert len(killed) + len(survived) == len(verdicts)
    assert all(one.by.startswith("tests/methods/test_fedgma.py::") for one in killed)
