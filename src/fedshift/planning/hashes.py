"""What decides which runs a plan has and what they cost, as hashes: what is declared, manifests, sources.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from fedshift.common.files import canonical_json, sha256, sha256_file
from fedshift.common.registry import plugin_sources
from fedshift.planning.request import Request
from fedshift.storage.workspace import TUNING, Workspace

COSTS = "benchmarks/costs.csv"
FACTORS = "benchmarks/methods.csv"


def inputs_key(workspace: Workspace, request: Request) -> str:
    """Hash of what a user declares: the request, its experiments, protocols, presets, claims and
    costs.
    """
    names = [name.removesuffix(TUNING) for name in request.experiments]
    experiments = [workspace.experiments / f"{name}.yaml" for name in names]
    costs = [workspace.root / COSTS, workspace.root / FACTORS]
    claims = workspace.reference / "claims.csv"  # which experiments are compared with which
    files = [*experiments, *sorted(workspace.reference.rglob("*.yaml")), claims, *costs]
    return sha256(canonical_json([asdict(request), _hashes(workspace.root, files)]))


def choices_key(workspace: Workspace, request: Request) -> str:
    """Hash of what the tuning of the experiments of a request has chosen."""
    files = [path for name in request.experiments for path in sorted(workspace.choices(name).glob("*.json"))]
    return sha256(canonical_json(_hashes(workspace.root, files)))


def manifests_key(workspace: Workspace) -> str:
    """Hash of all manifests, which say how many images there are. They decide what runs cost and not which
    there are, so a job goes on with its plan while another data set is fetched.
    """
    return sha256(canonical_json(_hashes(workspace.root, workspace.manifests())))


def _hashes(root: Path, files: Iterable[Path]) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): sha256_file(path) for path in files if path.is_file()}


def sources_key(subpackage: str = "") -> str:
    """Hash of the bytes of every module, template and table of the package, or of one of its
    subpackages ("analysis").
    """
    package = Path(__file__).parents[1] / subpackage
    kinds = ("*.py", "*.j2", "*.csv")
    return sha256(
        canonical_json(_hashes(package, sorted(path for kind in kinds for path in package.rglob(kind))))
    )


def plugins_key() -> str:
    """Hash of the bytes of every module of what is installed as a plug-in."""
    return sha256(canonical_json([[path.name, sha256_file(path)] for path in plugin_sources()]))
