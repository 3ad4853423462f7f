"""Which mutants are played: a seed decides, but those that change no number that a run gives are listed, each with its reason."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.mutants.sites import Key, Mutant, difference, files, sites

SOURCE = "src/fedshift"
OWN = ("fedshift.methods.", "fedshift.models.layers.")
HEADLINES = ("fdse", "fedrd", "hfedf", "stablefdg")
LIST = Path(__file__).parent / "equivalent.yaml"
KEYS = (
    "within",
    "operator",
    "code",
    "becomes",
)  # of its entries: function, operator, changed lines before and after
AT_LEAST = 30  # mutants of each headline method, where a campaign draws from everything


@dataclass(frozen=True)
class Drawn:
    """A mutant with its file's text before and after."""

    mutant: Mutant
    text: str
    code: str

    @property
    def key(self) -> Key:
        """What it is called, wherever its lines go."""
        return (self.mutant.file, self.mutant.within, self.mutant.operator, *difference(self.text, self.code))


def sample(root: Path, seed: int, count: int, chosen: list[str]) -> list[Drawn]:
    """The first `count` in the seed's order, and of those behind them so many that each headline method has AT_LEAST.

    A larger count adds to a smaller one's. Where the chosen files are no more than one method's, `count` alone decides.
    """
    parts = [set(of_method(root, method)) for method in HEADLINES]
    wanted = [min(AT_LEAST, count) if part < set(chosen) else 0 for part in parts]
    texts = {file: (root / file).read_text() for file in chosen}
    taken: list[Drawn] = []
    for mutant in _order(texts, seed):
        short = [place for place, part in enumerate(parts) if mutant.file in part and wanted[place] > 0]
        if len(taken) < count or short:
            code = mutant.code(texts[mutant.file])
            if code is not None:
                taken.append(Drawn(mutant, texts[mutant.file], code))
                for place in short:
                    wanted[place] -= 1
        elif max(wanted) <= 0:
            break
    return taken


def _order(texts: dict[str, str], seed: int) -> Iterator[Mutant]:
    """Every site once, in one of its variants."""
    rng = random.Random(seed)
    order = [site for file, text in texts.items() for site in sites(file, text)]
    rng.shuffle(order)
    for site in order:
        yield rng.choice(site.variants)


def of_method(root: Path, method: str) -> list[str]:
    """The method's file or folder and what it imports of methods and layers, at any depth; a network is not the method's own."""
    everything, mine, left = (
        set(files(root)),
        set(),
        [f"{SOURCE}/methods/{method}.py", f"{SOURCE}/methods/{method}/__init__.py"],
    )
    while left:
        file = left.pop()
        if file in everything and file not in mine:
            mine.add(file)
            tree = ast.parse((root / file).read_text())
            names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            own = [name.replace(".", "/") for name in names if name.startswith(OWN)]
            left += [f"src/{name}{end}" for name in own for end in (".py", "/__init__.py")]
    if not mine:
        raise SystemExit(f"no method '{method}' in {root / SOURCE / 'methods'}")
    return sorted(mine)


def equivalents() -> set[Key]:
    """All that are named: by the code and not by its place."""
    named = yaml.safe_load(LIST.read_text())
    return {(f"{SOURCE}/{one['file']}", *(one[key] for key in KEYS)) for one in named}  # type: ignore[misc]
