"""In which settings an experiment that tests a paper's claim differs from that paper's protocol."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from fedshift.analysis.printed.comparable import FREE, compare
from fedshift.analysis.printed.published import data_sets, targets
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.protocols import Partial, protocol
from fedshift.experiments.schema import Claim, Compared, Experiment
from fedshift.storage.workspace import Workspace


def changes(
    workspace: Workspace,
    experiment: Experiment,
    row: Mapping[str, str],
    claim: Claim,
    compared: Sequence[Compared],
) -> list[str]:
    """Each such setting ("federation.rounds 60, paper 200") of a claim; none: the settings are the paper's.

    row: the claim's row of reference/claims.csv; compared: the runs of both sides. What a method's own entry
    and the axes set is the claim's subject, and no difference; so are data sets, where a side names its own.
    """
    if (paper := protocol(workspace, experiment.protocol).paper) != row["paper"]:
        return [f"protocol {experiment.protocol} ({paper or 'ours'}), paper {row['paper']}"]
    labels = {experiment.adapt[of.row].run if of.row in experiment.adapt else of.row for of in compared}
    try:
        pairs = [
            pair
            for pair in _pairs(workspace, experiment.model_dump_json())
            if pair[0].label in labels and claim.where.items() <= pair[0].axes.items()
        ]
    except FedshiftError as error:  # an axis or a row of it means nothing under the protocol as it stands
        return [f"protocol {experiment.protocol} as it stands cannot run it: {error.what}"]
    reasons = {
        f"{key} {ours}, paper {theirs}": None
        for cell, plain in pairs
        for key, ours, theirs in compare(cell.spec, plain.spec, (*FREE, *claim.subject))
    }
    if not pairs or any("data.dataset" in of.where for of in compared):
        return [*reasons]
    used = sorted({cell.spec.data.dataset for cell, _ in pairs})
    known = data_sets(workspace).get(row["dataset"], used[0])
    if used != [known]:
        reasons[f"data.dataset {', '.join(used)}, paper {known}"] = None
    held_out = {cell.spec.data.held_out[0] for cell, _ in pairs if cell.spec.data.held_out}
    wanted = _targets(workspace, row, known)
    if held_out and wanted and "target" not in claim.where and held_out != wanted:
        reasons[f"data.target {', '.join(sorted(held_out))}, paper {', '.join(sorted(wanted))}"] = None
    return [*reasons]


def _targets(workspace: Workspace, row: Mapping[str, str], dataset: str) -> frozenset[str]:
    """The held-out domains that a claim is about: the one that its setting names ("photo; d=1"), else all
    that the paper prints.
    """
    every = targets(workspace, row["paper"], dataset)
    named = every.intersection(re.split(r"[;,]\s*", row["setting"]))
    return named or every


@functools.lru_cache(128)
def _pairs(workspace: Workspace, text: str) -> list[tuple[Cell, Cell]]:
    """The runs of an experiment (JSON), each beside the same run without what the file changes of its
    protocol for all methods.
    """
    declared = Experiment.model_validate_json(text)
    bare: Partial = {"tables": {}, "figures": [], "claims": {}, "published": {}}
    bare |= {"adapt": {}, "evaluations": []}
    data = {key: value for key, value in declared.spec.get("data", {}).items() if key == "dataset"}
    plain: Partial = {"spec": {"data": data}, "preset": "default"}
    experiments = (declared.model_copy(update=bare), declared.model_copy(update={**bare, **plain}))
    return [*zip(*(expand(workspace, experiment) for experiment in experiments), strict=True)]
