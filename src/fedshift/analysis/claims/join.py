"""All claims (reference/claims.csv) before training, with their outcome on the paper's own numbers.

Each has the experiments that test it, or the reason why there is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fedshift.analysis.claims.comparison import Comparison, Printed, declared, generated, on_print
from fedshift.analysis.coverage import Number
from fedshift.common.errors import unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import paper_claims, sides
from fedshift.storage.workspace import Workspace

# Why a claim has no place, by the words of reference/claims.yaml. For a claim on published numbers, the
# reason is that of the number without a cell (fedshift.analysis.coverage).
NEEDS = {
    "outlines": "needs outlines of the objects, which no data set here has (StableFDG Fig. 5, 6)",
    "network": "is of a network's size alone, or a vector's length: of no runs",
}
UNTESTED = "no experiment here tests it"  # in a project without the experiments that test it


@dataclass(frozen=True)
class Joined:
    """A claim with its outcome on the paper's own numbers.

    `places`: the experiments and comparisons that test it; the first one counts.
    `reason`: why there is none.
    """

    claim: str
    paper: str
    item: str
    text: str
    on_print: Printed
    reason: str
    places: list[tuple[str, Comparison]]


def join(workspace: Workspace, numbers: Iterable[Number]) -> list[Joined]:
    """Every claim, in the order of the reference.

    `numbers`: all numbers of fedshift.analysis.coverage.

    Raises FedshiftError for a reason in reference/claims.yaml that is not one of NEEDS, and for a paper
    without a margin in reference/published.yaml.
    """
    known = {number.uid: number for number in numbers}
    experiments = {name: load(workspace, name) for name in available(workspace)}
    every: dict[str, list[tuple[str, Comparison]]] = {}
    for comparison in generated(workspace, experiments.values(), known):
        home, name = comparison.cells[0].experiment, comparison.claim["id"]
        if name not in experiments[home].claims:  # it declares it, below
            every.setdefault(name, []).append((home, comparison))
    for home, experiment in experiments.items():
        for comparison in declared(workspace, experiment):
            every.setdefault(comparison.claim["id"], []).append((home, comparison))
    needs: dict[str, str] = {}  # claim, or group of them -> why it has no place
    for word, claims in read(workspace.reference / "claims.yaml").get("needs", {}).items():
        if word not in NEEDS:
            raise unknown("reference/claims.yaml: needs", "reason", word, NEEDS)
        needs |= dict.fromkeys(claims, NEEDS[word])
    joined = []
    for name, row in paper_claims(workspace).items():
        places = every.get(name, [])
        said, reason = on_print(workspace, row, places[0][1] if places else None), ""
        if not places:
            uids = [uid for side in sides(workspace, row) for _, uid in side.terms]
            reasons = [needs.get(name), needs.get(name.rpartition(".")[0])]
            reasons += [known[uid].reason for uid in uids if uid in known]
            reason = next(filter(None, reasons), UNTESTED)
        joined.append(Joined(name, row["paper"], row["item"], row["text"], said, reason, places))
    return joined
