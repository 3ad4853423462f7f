"""docs/claims.md: where every claim of the papers is judged, why some are not, and which the papers' own numbers
bear out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from printed_numbers import every_number

from fedshift.analysis.claims.comparison import KINDS
from fedshift.analysis.claims.join import Joined, join
from fedshift.analysis.claims.judge import WORDS
from fedshift.analysis.claims.words import listed, statement
from fedshift.analysis.page import piped
from fedshift.experiments.paper_claims import paper_claims
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
HEAD = """# Claims

Made by `make docs`: every comparison of `reference/claims.csv`, 438 in 126 sentences (`reference/claims_groups.csv`). Most are derived from its columns: each side is a printed
number, and each printed number has one cell ([coverage.md](coverage.md)), which may be of another experiment than the other side's. The others
are declared in an experiment's `claims` (docs/add-an-experiment.md). Declared, not trained: no number here was measured. What has come of them
stands in [results.md](results.md), how they are judged in `fedshift.analysis.claims`.

## Where they are judged

By kind: rows of a table; rows of two experiments; values of an axis, or columns; gains of rows over others, or beside a number; what a curve
says of its rounds (a certain one, their mean, the fluctuation, how many up to a value); costs; what evaluations of weights and images give.

"""
PRINT = """## On the papers' own numbers

Not a test: *holds* and *fails* go by the sign of the printed difference (of >= and ~: by the margin). *within the spread*: where the paper
prints spreads, the difference (of >= and ~: its distance from the margin) is smaller than the standard deviation of a difference of two single
runs. *within the rounding*: it is smaller than the printed digits tell. The margin is the paper's in `reference/published.yaml`, as for
[verdicts](verdicts.md), or what an experiment declares for the claim; of costs a tenth. A number that is a slip stands for what it is taken for
([coverage.md](coverage.md)); of several on the right, one whose right value nobody knows is left out.

"""
AGAINST = """## What the papers' own numbers speak against

Each row is one comparison, read strictly; many come from sentences that say most or almost all, which need not hold everywhere: the next table
counts by sentence. A loss counts against "gain only marginally" (SF-C05), too.

"""
WITHOUT = """## Without a place

"""
NARROWER = """## Where the text says more

- FDSE names LG-FedAvg, FedBN and Ditto where personalised methods lead (FDSE-C02). PartialFed, also personalised, is left out: it is a reconstruction here.
- FDSE: "degraded after removing each module" is judged of module C (FDSE-C19). Of A and B no row without them alone is printed; `fdse/table3_office` has ours.
- FDSE: "outperforms all other methods across nearly all clients" is judged of each data set as all clients but one (FDSE-C04).
- FDSE and FedRD: "significantly" (FDSE-C10) and "by a large margin" (FRD-C01, C06, C07) are judged as an improvement.
- FedRD: Table 5 "shows that our method outperforms prior federated learning methods". It has no prior method; judged are its reduced variants beside FedAvg (FRD-C11).
- FDSE: that the best tau differs between data sets is left out of FDSE-C31.
- hFedF: confidence is judged of wrong predictions out of distribution (HF-C11) and of right ones in it (HF-C12); the text restricts neither.
- hFedF: that FedAvg is "a strong benchmark" has no measure in the text; judged is that it is not worse than FedSR and FedGMA, by the margin, in most comparisons (HF-C36). "To approve the design of the client
  model architecture" is judged as no network being better (HF-C35).
- hFedF, A.1.7: that it stays ahead of FedAvg and FedSR over 1,000 rounds is not said, and not judged; that it does not lose performance is (HF-C31).
- hFedF, A.1.4: "surpasses the version with randomized client embeddings", yet "the results remain remarkably consistent", is judged as being not worse, by the
  margin (HF-C25). FedRD: "robustness" under heterogeneity is judged likewise, beside its baselines (FRD-C08).
- StableFDG: "the previous results" of centralised training are MixStyle's and DSU's; StableFDG's own is not compared (SF-C07).
- hFedF, 4.2: "the VLCS data set offers the biggest challenges" compares data sets, not methods, and is not judged.
- hFedF: the "marginal" improvement with d is judged as an improvement (HF-C10).
- hFedF, A.1.1: that weights converge "for some left-out target domains", and that every domain drifts either way depending on the others, are not judged.
- StableFDG, E.1: that by the largest distance most clients receive the same style is not judged; its accuracies are (SF-C29).

"""


def claims() -> str:
    """The page."""
    joined = join(Workspace(ROOT), every_number())
    by_kind = _counted(
        joined, [*KINDS, "without"], lambda one: one.places[0][1].kind if one.places else "without"
    )
    on_print = _counted(joined, WORDS, lambda one: one.on_print.word)
    against = [
        (
            one.claim,
            _dataset(one),
            _said(one),
            f"{one.on_print.difference:+.2f}",
            one.on_print.word,
            _words(one),
        )
        for one in joined
        if one.on_print.word != "not printed" and not one.on_print.holds
    ]
    reasons = Counter((one.paper, one.reason) for one in joined if one.reason)
    without = [
        (paper, str(count), reason, ", ".join(_named(joined, paper, reason)))
        for (paper, reason), count in reasons.items()
    ]
    return (
        HEAD
        + by_kind
        + WITHOUT
        + _table(("paper", "comparisons", "why", "which"), without)
        + NARROWER
        + PRINT
        + on_print
        + AGAINST
        + _table(("comparison", "data set", "says", "printed difference", "on print", "in words"), against)
        + _by_group(joined, {claim.rpartition(".")[0] for claim, *_ in against})
    ).rstrip("\n") + "\n"


def _by_group(joined: list[Joined], against: set[str]) -> str:
    """The groups that a comparison speaks `against`, with how many of their comparisons hold on print."""
    rows = []
    for name, group in listed(Workspace(ROOT)).items():
        if name not in against:
            continue
        members = [one.on_print for one in joined if one.claim.rpartition(".")[0] == name]
        printed = [one for one in members if one.word != "not printed"]
        numbers = map(str, (len(members), len(printed), sum(one.holds for one in printed)))
        rows.append((name, group["quantifier"], *numbers))
    heads = ("sentence", "says it of", "comparisons", "printed", "hold on print")
    return _table(heads, rows)


def _counted(joined: list[Joined], words: Iterable[str], of: Callable[[Joined], str]) -> str:
    """A line for each paper, then the sum."""
    words = [*words]
    papers = dict.fromkeys(one.paper for one in joined)
    rows = []
    for paper in (*papers, "all"):
        counts = Counter(of(one) for one in joined if paper in (one.paper, "all"))
        rows.append((paper, str(counts.total()), *(str(counts[word]) for word in words)))
    return _table(("paper", "comparisons", *words), rows)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return piped([heads, *rows], ["---"] * len(heads)) + "\n\n"


def _said(one: Joined) -> str:
    """As an experiment has it, or in the words of the list."""
    if one.places:
        home, comparison = one.places[0]
        return statement(comparison, home)
    row = paper_claims(Workspace(ROOT))[one.claim]
    return f"{row['left']} {row['relation']} {row['right']}, {row['metric']}".replace("|", ", ")


def _dataset(one: Joined) -> str:
    return paper_claims(Workspace(ROOT))[one.claim]["dataset"]


def _words(one: Joined) -> str:
    return one.text.partition(" [published")[0].replace("|", ", ")


def _named(joined: list[Joined], paper: str, reason: str) -> list[str]:
    return [one.claim for one in joined if (one.paper, one.reason) == (paper, reason)]
