"""The join of all claims (reference/claims.csv): each with the experiments that test it, or with the reason
why none does. Nothing has to be trained for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fedshift.analysis.claims.comparison import Comparison, declared, generated
from fedshift.analysis.claims.judge import Printed, on_print
from fedshift.analysis.coverage import Number
from fedshift.common.errors import unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import paper_claims, sides
from fedshift.storage.workspace import Workspace

# Why a claim has no place, by the words of reference/claims.yaml; of one whose numbers are printed, the
# reason is that of the number without a cell (fedshift.analysis.coverage).
NEEDS = {
    "outlines": "needs outlines of the objects, which no data set here has (StableFDG Fig. 5, 6)",
    "network": "is of a network's size alone, or a vector's length: of no runs",
}
UNTESTED = "no experiment here tests it"  # of a project without the experiments that do


@dataclass(frozen=True)
class Joined:
    """A claim: its places (experiment and comparison, the first the one that counts), or the reason why there
    is none; and how it stands on the paper's own numbers.
    """

    claim: str
    paper: str
    item: str
    text: str
    on_print: Printed
    reason: str = ""
    places: list[tuple[str, Comparison]] = field(default_factory=list)


def join(workspace: Workspace, numbers: Iterable[Number]) -> list[Joined]:
    """Every claim, in the order of the reference; numbers: all of fedshift.analysis.coverage.

    Raises FedshiftError for a reason in reference/claims.yaml that is none of NEEDS, and for a paper without
    a margin in reference/published.yaml.
    """
    known = {number.uid: number for number in numbers}
    experiments = [load(workspace, name) for name in available(workspace)]
    own = {experiment.name: experiment.claims for experiment in experiments}
    places: dict[str, list[tuple[str, Comparison]]] = {}
    for comparison in generated(workspace, experiments, known):
        home, name = comparison.cells[0].experiment, comparison.claim["id"]
        if name not in own[home]:  # it declares it, below
            places.setdefault(name, []).append((home, comparison))
    for experiment in experiments:
        for comparison in declared(workspace, experiment):
            places.setdefault(comparison.claim["id"], []).append((experiment.name, comparison))
    needs = _needs(workspace)
    return [
        Joined(
            name,
            row["paper"],
            row["item"],
            row["text"],
            on_print(workspace, row, places[name][0][1] if name in places else None),
            "" if name in places else _reason(workspace, row, known, needs),
            places.get(name, []),
        )
        for name, row in paper_claims(workspace).items()
    ]


def _needs(workspace: Workspace) -> dict[str, str]:
    """Claim, or group of them -> why it has no place."""
    declared = read(workspace.reference / "claims.yaml").get("needs", {})
    needs: dict[str, str] = {}
    for word, claims in declared.items():
        if word not in NEEDS:
            raise unknown("reference/claims.yaml: needs", "reason", word, NEEDS)
        needs |= dict.fromkeys(claims, NEEDS[word])
    return needs


def _reason(
    workspace: Workspace, row: dict[str, str], known: dict[str, Number], needs: dict[str, str]
) -> str:
    name = row["id"]
    uids = [uid for side in sides(workspace, row) for _, uid in side.terms]
    printed = [known[uid].reason for uid in uids if uid in known]
    reasons = [needs.get(name, ""), needs.get(name.rpartition(".")[0], ""), *printed]
    return next(filter(None, reasons), UNTESTED)
