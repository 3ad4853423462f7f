"""Page: the tables of an experiment as Markdown, and as one HTML file that needs nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jinja2
import pandas as pd

from fedshift.analysis.grid import Grid, grids
from fedshift.experiments.schema import Experiment

# What a line of the table of claims holds (fedshift.analysis.claims.lines).
Line = tuple[str, ...]
GROUP: Line = (
    "group",
    "needs",
    "verdict",
    "confirmed",
    "refuted",
    "undecided",
    "not tested here",
    "in words",
)
CLAIM: Line = ("claim", "says", "paper", "verdict", "ours: mean difference [95% interval], seeds", "in words")
STYLE = """\
  body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; max-width: 75rem; margin: 2.5rem auto; padding: 0 1.5rem; }
  h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
  h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
  h3 { font-size: .95rem; margin: 1.25rem 0 .25rem; color: #57606a; }
  .paper, .where { color: #57606a; }
  .where { margin: 0; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; border-top: 2px solid #1b1f24; border-bottom: 2px solid #1b1f24; }
  th, td { padding: .3rem .9rem; text-align: right; white-space: nowrap; vertical-align: top; }
  th { font-weight: 600; }
  thead th[colspan] { text-align: center; }
  thead tr:last-child th { border-bottom: 1px solid #1b1f24; }
  tbody th { text-align: left; position: sticky; left: 0; background: #fff; }
  tbody tr + tr > * { border-top: 1px solid #eaeef2; }
  td.text, th.text { text-align: left; white-space: normal; }
  td .paper, td .orientation { display: block; font-size: .82em; }
  td .orientation { color: #8c959f; font-style: italic; }
  .missing { color: #9a3412; }
  ul { padding-left: 1.1rem; font-size: .9rem; color: #424a53; }
"""
TABLES = """\
{% for title, blocks in tables %}
<h2>{{ title }}</h2>
{% for block in blocks %}
{% if block.caption %}<h3>{{ block.caption }}</h3>{% endif %}
<div class="wide"><table>
<thead>
{% for level in headings(block.columns) %}<tr><th></th>{% for text, span in level %}
<th{% if span > 1 %} colspan="{{ span }}"{% endif %}>{{ text }}</th>{% endfor %}</tr>
{% endfor %}</thead>
<tbody>
{% for method, entries in block.rows %}<tr><th>{{ method }}</th>{% for entry in entries %}
<td{% if entry.ours == "missing" %} class="missing"{% endif %}>{{ entry.ours }}{% if entry.paper %}
<span class="paper">paper {{ entry.paper }}{% if entry.difference %} ({{ entry.difference }}){% endif %}</span>{% endif %}
{% if entry.orientation %}<span class="orientation">orientation: {{ entry.orientation }}</span>{% endif %}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
{% endfor %}
{% endfor %}
{% if claims %}
<h2>Claims</h2>
<div class="wide"><table>
<thead><tr>{% for heading in claim_headings %}<th class="text">{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>{% for line in claims %}
<tr><th>{{ line[0] }}</th>{% for text in line[1:] %}<td class="text">{{ text }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table></div>
<h2>Claims, together</h2>
<div class="wide"><table>
<thead><tr>{% for heading in group_headings %}<th class="text">{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>{% for line in groups %}
<tr><th>{{ line[0] }}</th>{% for text in line[1:] %}<td class="text">{{ text }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table></div>
{% endif %}
<h2>Notes</h2>
<ul>{% for note in notes %}
<li>{{ note }}</li>{% endfor %}
</ul>
"""
TEMPLATE = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{{{ experiment.title }}}}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{{{{ experiment.title }}}}</h1>
<p class="where">Experiment <code>{{{{ experiment.name }}}}</code>, protocol <code>{{{{ experiment.protocol }}}}</code></p>
{TABLES}</body>
</html>
"""


def html(
    tables: Sequence[tuple[str, pd.DataFrame]],
    notes: list[str],
    experiment: Experiment,
    claims: list[Line],
    groups: list[Line],
) -> str:
    """All tables under their titles on one page: ours in each cell, the published value and the difference below it; then claims and groups of them."""
    return template(TEMPLATE).render(
        experiment=experiment, tables=blocks(tables), notes=notes, claims=claims, groups=groups
    )


def template(text: str) -> jinja2.Template:
    """A page's template; what it fills in is escaped."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(
        text, {"headings": _headings, "claim_headings": CLAIM, "group_headings": GROUP}
    )


def blocks(tables: Sequence[tuple[str, pd.DataFrame]]) -> list[tuple[str, list[Grid]]]:
    """What TABLES lays out."""
    return [(title, grids(cells)) for title, cells in tables]


def markdown(
    tables: Sequence[tuple[str, pd.DataFrame]],
    notes: list[str],
    title: str = "",
    claims: Sequence[Line] = (),
    groups: Sequence[Line] = (),
) -> str:
    """Tables under their titles; a method that the paper prints has two further lines, the published values and the differences, or
    one, the values printed for another experiment.
    """
    parts = [f"# {title}"] if title else []
    for name, cells in tables:
        parts.append(f"## {name}")
        for block in grids(cells):
            parts += [f"**{block.caption}**"] if block.caption else []
            parts.append(_lines(block))
    if claims:
        parts += ["## Claims", _piped([CLAIM, *claims], ["-" * len(heading) for heading in CLAIM])]
        parts += ["## Claims, together", _piped([GROUP, *groups], ["-" * len(heading) for heading in GROUP])]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _headings(columns: list[tuple[str, ...]]) -> list[list[tuple[str, int]]]:
    """Per level of the columns' headings: each text with the number of columns that it spans."""
    levels = []
    for depth in range(1, len(columns[0]) + 1):
        groups = itertools.groupby(column[:depth] for column in columns)
        levels.append([(prefix[-1], len(list(group))) for prefix, group in groups])
    return levels


def _lines(block: Grid) -> str:
    lines = [["method", *(" ".join(column) for column in block.columns)]]
    for method, entries in block.rows:
        lines.append([method, *(entry.ours for entry in entries)])
        if any(entry.paper for entry in entries):
            lines.append(["· paper", *(entry.paper for entry in entries)])
            lines.append(["· difference", *(entry.difference for entry in entries)])
        if any(entry.orientation for entry in entries):
            lines.append(["· orientation", *(entry.orientation for entry in entries)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return _piped([[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines], rule)


def _piped(lines: Sequence[Sequence[str]], rule: Sequence[str]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])
