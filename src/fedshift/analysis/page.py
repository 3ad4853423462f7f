"""The tables of an experiment as pages in Markdown and CSV, with the templates of HTML pages.

The long table of cells is laid out as methods by columns, with headings, numbers as text and footnotes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from fedshift.analysis.quantities import lower_is_better
from fedshift.analysis.verdicts import OUTCOMES, WORDS
from fedshift.common.registry import get
from fedshift.experiments.column import AGGREGATIONS, COSTS, DEFAULT, RELATIVE, column, quantity, recorded_of
from fedshift.experiments.schema import METRIC

FINER = 2  # more digits for values that are not percentages, such as a loss
DIGITS = 3  # of costs


def heading(text: str) -> str:
    """The heading of a column: "ood", "gain in ood", "M parameters", "rounds to ood 60", "local.lr"."""
    kind, name, relative = column(text)
    if kind == "quantity":
        metric, how = quantity(name)
        shown = " ".join([*([] if metric == DEFAULT else [get("metrics", metric).title]), AGGREGATIONS[how]])
    elif kind == "cost":
        shown = COSTS[name]
    elif kind == "setting":
        shown = name
    elif kind == "recorded":
        shown = " ".join(filter(None, recorded_of(name)))
    elif kind == "leads":
        shown = f"% of clients led in {name}"
    elif kind == "layer":
        shown = f"layer {name.partition('.')[2]}"
    elif kind == "evaluated":
        evaluation, _, number = name.partition(".")
        shown = get("evaluations", evaluation).quantities[number]
    else:
        shown = f"rounds to {name.replace('=', ' ')}"
    return f"{RELATIVE[relative]} {shown}" if relative else shown


def in_percent(text: str) -> bool:
    """Whether a column has percentages, or differences of percentages."""
    own = column(text)
    fraction = own.kind == "quantity" and get("metrics", quantity(own.name).metric).percent
    return bool(fraction and own.relative != "ratio")


def form(text: str, digits: int) -> Callable[[float], str]:
    """The format of a column's numbers; `digits`: those of percentages in the table."""
    own = column(text)
    if own.kind == "setting":
        return "{:g}".format
    if own.kind == "layer":
        return "{:,.0f} parameters".format
    places = digits if in_percent(text) else digits + FINER if own.kind == "quantity" else DIGITS
    return f"{{:.{places}f}}".format


FEWER = "†"  # next to a mean over fewer values than its neighbours'
REMARK = "‡"  # next to a published number that is not taken at face value
CLIENTS = "¶"  # next to a value of fewer clients than take part
MARK = "§"  # next to a mean of which a run or more are archived
MARKS = FEWER + REMARK + CLIENTS + MARK
FOOTNOTES = {
    "differs": "Orientation: published for another experiment than the row's, so no difference is shown: {}.",
    "fewer": FEWER + " A mean over fewer values than others in its column: {}.",
    "clients": CLIENTS + " Clients with a value: {}. The others have no test image, or the metric is not "
    "defined on theirs.",
    "remark": REMARK + " Published number: {}.",
    "spread": "Published spread: {}.",
}  # by columns of cells


def footnotes(tables: Sequence[pd.DataFrame]) -> list[str]:
    """A sentence for each kind of remark in the tables of `fedshift.analysis.tables.cells`.

    Each reason appears once: "a (method, method); b". The methods are left out if they are all of the tables.
    """
    if not tables:
        return []
    cells, lines = pd.concat([table[["method", *FOOTNOTES]].astype(str) for table in tables]), []
    every = cells["method"].nunique()
    for name, sentence in FOOTNOTES.items():
        methods: dict[str, dict[str, None]] = {}  # by reason
        for method, text in zip(cells["method"], cells[name], strict=True):
            for reason in filter(None, text.split("; ") if name == "differs" else [text]):
                methods.setdefault(reason, {})[method] = None
        listed = [
            reason if len(of) == every else f"{reason} ({', '.join(of)})" for reason, of in methods.items()
        ]
        lines += [sentence.format("; ".join(listed))] if listed else []
    return lines


MISSING = "missing"
PLAIN = ("target", "data.dataset")  # axes whose values need no word before them
BELOW = {"paper": "paper", "difference": "paper", "verdict": "verdict", "orientation": "orientation"}
# lines below a method's own -> each is there where this one has a text


class Grid(NamedTuple):
    """A block of a table.

    `columns`: one tuple of headings per column.
    `rows`: a method, and its lines: name -> a text per column, "" where there is none.
    """

    caption: str
    columns: list[tuple[str, ...]]
    rows: list[tuple[str, dict[str, list[str]]]]


Block = tuple[str, list[Grid]]  # a table under its title
Entry = Callable[[Mapping[Hashable, Any], Callable[[float], str]], dict[str, str]]
BEST, SECOND = 1, 2


def ranks(cells: pd.DataFrame) -> pd.Series[int]:
    """BEST, SECOND or 0 for each cell of a table, by its mean among the rows of its column.

    Only means over all planned seeds, and over as many values as their neighbours', are ranked. Means that
    agree to nine digits share a rank. A column with fewer than two such means has no ranks. Nor have columns
    of costs, of settings, or relative to another row, as a gain belongs to that row.
    """
    whole = (cells["seeds"] > 0) & (cells["seeds"] == cells["planned"]) & (cells["fewer"] == "")
    signs = {}  # 1 if higher is better, -1 if lower is; 0 if neither
    for name in cells["metric"].astype(str).unique():
        of = column(name)
        ranked = of.kind == "quantity" and not of.relative
        signs[name] = (-1 if lower_is_better(of.name) else 1) if ranked else 0
    sign = cells["metric"].astype(str).map(signs)
    values = (sign * cells["mean"]).round(9)[whole & (sign != 0)]
    groups = values.groupby([cells.loc[values.index, axis].astype(str) for axis in _axes(cells)])
    order = groups.rank(method="dense", ascending=False).where(groups.transform("size") > 1)
    return order.where(order <= SECOND).reindex(cells.index).fillna(0).astype(int)


def _axes(cells: pd.DataFrame) -> list[str]:
    """The axes that are columns of a table, with `metric`."""
    return list(cells.columns[1 : list(cells.columns).index("mean")])


def blocks(tables: Iterable[tuple[str, pd.DataFrame]]) -> list[Block]:
    """Titles and cells, laid out for pages: lines `ours`, those of BELOW, and `best`, where ours is best."""
    return [(title, laid_out(cells, _entry)) for title, cells in tables]


def laid_out(cells: pd.DataFrame, entry: Entry) -> list[Grid]:
    """One grid per value of the first axis if there are several column axes, otherwise a single grid.

    `entry`: makes the texts of a place, one for each line, from the cell, with its `rank` (`ranks`), and the
        format of its numbers. Percentages have two decimals if the paper has two.
    """
    axes = _axes(cells)
    percent = cells.loc[cells["metric"].astype(str).map(in_percent), ["published", "orientation"]]
    digits = 2 if (percent.mul(10).round(6) % 1 > 0).any(axis=None) else 1
    cells = cells.assign(rank=ranks(cells)).sort_values("method", kind="stable")
    parts = [("", cells)]
    if len(axes) >= 3:
        groups = cells.groupby(axes[0], observed=True)
        parts, axes = [(_heading(axes[0], value), part) for value, part in groups], axes[1:]
    grids = []
    for caption, part in parts:
        columns = list(part[axes].drop_duplicates().sort_values(axes).itertuples(index=False, name=None))
        rows: dict[str, dict[str, list[str]]] = {}
        for cell in part.to_dict("records"):
            lines, place = rows.setdefault(str(cell["method"]), {}), tuple(cell[axis] for axis in axes)
            for line, text in entry(cell, form(cell["metric"], digits)).items():
                lines.setdefault(line, [""] * len(columns))[columns.index(place)] = text
        grids.append(Grid(caption, [tuple(map(_heading, axes, at)) for at in columns], [*rows.items()]))
    return grids


def _heading(axis: str, value: object) -> str:
    """The heading of an axis value: targets and data sets without the axis before them."""
    if axis == METRIC:
        return heading(str(value))
    return str(value) if axis in PLAIN else f"{axis} = {value}"


def _entry(cell: Mapping[Hashable, Any], text: Callable[[float], str]) -> dict[str, str]:
    """A cell in words: ours, the paper's, their difference, and values for orientation only."""
    ours = _spread(cell["mean"], cell["std"], text) or MISSING
    texts = dict.fromkeys(("ours", *BELOW, "best"), "") | {"verdict": cell["verdict"]}
    if cell["text"]:
        return texts | {"ours": f"{cell['text']}: {ours}", "paper": cell["published_text"]}
    if 0 < cell["seeds"] < cell["planned"]:
        ours += f" ({cell['seeds']:.0f}/{cell['planned']:.0f})"
    if ours != MISSING:
        ours += (FEWER if cell["fewer"] else "") + (MARK if cell["archived"] else "")
    if not pd.isna(cell["difference"]):
        texts["difference"] = _signed(text(cell["difference"]))
    if not pd.isna(cell["low"]):
        texts["difference"] += f" [{_signed(text(cell['low']))}, {_signed(text(cell['high']))}]"
    for line, name in (("paper", "published"), ("orientation", "orientation")):
        texts[line] = _spread(cell[name], cell[f"{name}_std"], text, REMARK if cell["remark"] else "")
    best = "best" if cell["rank"] == BEST else ""
    return texts | {"ours": ours + (CLIENTS if cell["clients"] else ""), "best": best}


def _signed(text: str) -> str:
    """Text with its sign, and "+" for zero: "+0.3", "+0.0"."""
    return text if float(text) < 0 else f"+{text.removeprefix('-')}"


def _spread(mean: float, std: float, text: Callable[[float], str], mark: str = "") -> str:
    if pd.isna(mean):
        return ""
    return f"{text(mean)}{mark}" + ("" if pd.isna(std) else f" ± {text(std)}")


Line = tuple[str, ...]  # of a table of verdicts, comparisons or sentences
OURS = "ours: mean difference [95% interval], seeds"
SECTIONS: dict[str, tuple[str, Line]] = {  # below the tables: title and headings
    "hypotheses": (
        "Hypotheses", ("hypothesis", "data set", "difference [interval]", "seeds", "verdict", "in words")
    ),
    "verdicts": ("Verdicts", ("published table", "compared", *WORDS, "rms distance", "median half-width")),
    "claims": (
        "Comparisons",
        ("claim", "comparison", "paper", "by the paper's numbers", "verdict", OURS, "in words"),
    ),
    "sentences": ("Sentences", ("sentence", "about", *OUTCOMES, "not here", "in words")),
}  # fmt: skip


@functools.cache
def template(name: str) -> jinja2.Template:
    """A template of `templates/`; inserted values are escaped."""
    loader = jinja2.PackageLoader("fedshift.analysis")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"split": split, "headings": headings, "number": number, "sections": SECTIONS}
    return environment.get_template(name)


def csv(table: pd.DataFrame) -> str:
    """The rows of a table, numbers to four decimals; without the column `clients` if it is empty."""
    if "clients" in table and table["clients"].eq("").all():
        table = table.drop(columns="clients")
    return str(table.to_csv(index=False, float_format=_decimals))


def _decimals(value: Any) -> str:
    """Four decimals, or four digits of a smaller number, such as a weight decay. Below 1e-9 is rounding."""
    return f"{value:.4g}" if 1e-9 < abs(value) < 1e-3 else f"{value:.4f}"


def number(value: float) -> str:
    """About three digits, with thousands separated; a dash for an absent value."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(tables: Sequence[Block], notes: list[str], title: str = "", **sections: Sequence[Line]) -> str:
    """Tables under their titles, with the lines of SECTIONS and notes below.

    A method with published values has three more lines: the published values, the differences and the
    verdicts. With values of another experiment it has one more line.
    """
    parts = [f"# {title}"] if title else []
    for name, grids in tables:
        parts.append(f"## {name}")
        for block in grids:
            parts += [f"**{block.caption}**"] if block.caption else []
            parts.append(_lines(block))
    for section, (name, head) in SECTIONS.items():
        if lines := sections.get(section):
            parts += [f"## {name}", piped([head, *lines], ["-" * len(word) for word in head])]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def terminal(tables: Sequence[Block], width: int) -> str:
    """The tables as plain text of at most `width` columns.

    Methods and columns without a result of ours are left out. A wide table is continued below itself.
    """
    parts: list[str] = []
    shown, absent = set[str](), dict[str, None]()
    for title, grids in tables:
        heading = [title]  # of the first block with a result
        for block in grids:
            rows, without = split(block)
            shown |= {method for method, _ in rows}
            absent |= dict.fromkeys(method for method, _ in without)
            own = (lines["ours"] for _, lines in rows)
            full = [any(map(_has, texts)) for texts in zip(*own, strict=True)]
            if any(full):
                parts += [*heading, block.caption] if block.caption else heading
                heading = []
                parts += ["\n".join(part) for part in _chunks(_table(block._replace(rows=rows), full), width)]
    if left := [method for method in absent if method not in shown]:
        parts.append(f"No finished runs: {', '.join(left)}.")
    return "\n\n".join(parts)


def _chunks(lines: list[list[str]], width: int) -> Iterator[list[str]]:
    """Aligned lines of text, the first column repeated where the others do not fit side by side."""
    padded = [[text.ljust(max(map(len, lined))) for text in lined] for lined in zip(*lines, strict=True)]
    first, begin = padded[0], 1
    while begin < len(padded):
        end, used = begin, len(first[0])
        while end < len(padded) and (end == begin or used + 2 + len(padded[end][0]) <= width):
            used, end = used + 2 + len(padded[end][0]), end + 1
        yield ["  ".join(texts).rstrip() for texts in zip(first, *padded[begin:end], strict=True)]
        begin = end


def _has(ours: str) -> bool:
    """Whether the text of a cell has a result of ours."""
    return bool(ours) and not ours.startswith(MISSING)


def split(block: Grid) -> list[list[tuple[str, dict[str, list[str]]]]]:
    """The rows with a number of ours, and those without."""
    has = [any(map(_has, lines["ours"])) for _, lines in block.rows]
    return [[row for row, own in zip(block.rows, has, strict=True) if own == of] for of in (True, False)]


def headings(columns: list[tuple[str, ...]]) -> list[list[tuple[str, int]]]:
    """For each level of the columns' headings, each text with the number of columns that it spans."""
    levels = []
    for depth in range(1, len(columns[0])):
        groups = itertools.groupby(column[:depth] for column in columns)
        levels.append([(prefix[-1], len(list(group))) for prefix, group in groups])
    return [*levels, [(column[-1], 1) for column in columns]]


def _table(block: Grid, full: Sequence[bool] | None = None) -> list[list[str]]:
    """A grid as lines of text: headings, then each method's lines; only the columns that are `full`."""
    wanted = full or [True] * len(block.columns)
    lines = [["method", *itertools.compress(map(" ".join, block.columns), wanted)]]
    for method, own in block.rows:
        texts = {line: [*itertools.compress(of, wanted)] for line, of in own.items()}
        lines.append([method, *texts["ours"]])
        lines += [[f"· {line}", *texts[line]] for line, where in BELOW.items() if any(texts[where])]
    return lines


def _lines(block: Grid) -> str:
    lines = _table(block)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return piped([[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines], rule)


def piped(lines: Sequence[Sequence[str]], rule: Sequence[str]) -> str:
    """Lines of text as a Markdown table: the first has the headings, and `rule` follows it."""
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [escaped[0], rule, *escaped[1:]])
