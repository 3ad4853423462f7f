"""Counted: numbers, comparisons or sentences by verdict, for each paper and item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedshift.analysis.report.findings import place

Linked = tuple[str, dict[str, str]]  # an experiment, and what is there of it: label -> link
Links = Callable[[str], Linked]


@dataclass(frozen=True)
class Line:
    """A table of a paper, or what claims are of: how many numbers, comparisons or sentences, how many of each
    word, and the experiments that stand for it.
    """

    paper: str
    item: str
    total: int
    counts: dict[str, int]
    experiments: list[Linked]


def lines(
    members: list[tuple[tuple[str, str], str, list[str]]], words: Iterable[str], links: Links
) -> list[Line]:
    """One for each paper and item, by their numbers, then the sum; members: paper and item, word,
    experiments.
    """
    papers = list(dict.fromkeys(paper for (paper, _), _, _ in members))
    members = sorted(members, key=lambda member: (papers.index(member[0][0]), place(member[0][1])))
    groups: dict[tuple[str, str], list[tuple[str, list[str]]]] = {}
    for of, word, experiments in members:
        groups.setdefault(of, []).append((word, experiments))
    everything = [(word, list[str]()) for _, word, _ in members]
    counted = []
    for (paper, item), group in [*groups.items(), (("all", ""), everything)]:
        counts = Counter(word for word, _ in group)
        names = dict.fromkeys(name for _, experiments in group for name in experiments)
        counted.append(
            Line(paper, item, len(group), {word: counts[word] for word in words}, [*map(links, names)])
        )
    return counted


def listed(line: Line) -> str:
    """Its counts in words: "2 are confirmed, 1 is refuted"."""
    parts = [f"{n:,} {'is' if n == 1 else 'are'} {word}" for word, n in line.counts.items() if n]
    return ", ".join(parts)
