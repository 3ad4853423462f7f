"""The report's page: one HTML file that holds all it needs, and may not ask for more."""

from __future__ import annotations

from fedshift.analysis.page import STYLE, TABLES

# The policy forbids the page every request; plotly.js draws with inline scripts and styles only.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

OWN_STYLE = """\
  section { border-top: 1px solid #d0d7de; margin-top: 3rem; padding-top: 1rem; }
  h2.name { font-size: 1.3rem; margin-top: .5rem; }
  nav a, tbody th a { color: #0550ae; text-decoration: none; }
  nav { position: sticky; top: 0; background: #fff; padding: .5rem 0; border-bottom: 1px solid #d0d7de; margin-bottom: 1.25rem; z-index: 5; font-size: .9rem; }
  nav a { margin-right: 1.2rem; }
  table { font-size: .92em; }
  th, td { padding: .3rem .6rem; }
  h1 + .where { margin-bottom: 1rem; }
  .bad { color: #9a3412; font-weight: 600; }
  .good { color: #116329; }
  .hint { color: #57606a; font-size: .9rem; margin: .25rem 0; }
  code { font-size: .88em; overflow-wrap: anywhere; }
  details { margin: .5rem 0; }
  summary { cursor: pointer; color: #0550ae; }
  dl { display: grid; grid-template-columns: 7rem 1fr; gap: .2rem 1rem; font-size: .92rem; }
  dt { color: #57606a; }
  dd { margin: 0; }
"""

TEMPLATE = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedshift: {{{{ title }}}}</title>
<link rel="icon" href="data:,">
<style>
{STYLE}{OWN_STYLE}</style>
<script>{{{{ plotly }}}}</script>
</head>
<body>
"""
TEMPLATE += (
    """\
<h1>fedshift report</h1>
<p class="where">{% if commit %}Commit <code>{{ commit }}</code>, {% endif %}fedshift {{ version }}.
{%- if finished %} The last of its runs ended {{ finished }}.{% endif %}</p>
{% if parts | length > 1 %}
<nav>{% for part in parts %}<a href="#{{ part.anchor }}">{{ part.experiment.name }}</a>{% endfor %}</nav>
{% endif %}
<div class="wide"><table>
<thead><tr><th class="text">experiment</th><th>runs</th><th>finished</th><th>failed</th><th>missing</th><th class="text">check</th></tr></thead>
<tbody>
{% for part in parts %}
<tr><th><a href="#{{ part.anchor }}">{{ part.experiment.name }}</a></th><td>{{ part.counts.runs }}</td><td>{{ part.counts.finished }}</td>
<td{% if part.counts.failed %} class="bad"{% endif %}>{{ part.counts.failed }}</td>
<td{% if part.counts.missing %} class="bad"{% endif %}>{{ part.counts.missing }}</td>
<td class="text">{% if part.short %}<span class="bad">{{ part.short | length }} of {{ part.checks }} fall short</span>
{% else %}<span class="good">{{ part.checks }} of {{ part.checks }} hold</span>{% endif %}</td></tr>
{% endfor %}
{% for name in absent %}
<tr><th>{{ name }}</th><td class="text bad" colspan="5">no collected runs: fedshift collect {{ name }}</td></tr>
{% endfor %}
</tbody></table></div>
{% for part in parts %}
{% set experiment, tables, notes, claims, groups = part.experiment, part.tables, part.notes, part.claims, part.groups %}
<section id="{{ part.anchor }}">
<h2 class="name">{{ experiment.title }}</h2>
<p class="where">Experiment <code>{{ experiment.name }}</code>, protocol <code>{{ experiment.protocol }}</code>
{%- if experiment.paper %}, {{ experiment.paper }}{% endif %}</p>
{% if part.short %}
<h2>Falls short</h2>
<ul>{% for one in part.short %}<li>{{ one }}</li>{% endfor %}</ul>
{% endif %}
{% if part.unfinished %}
<h2>Runs that are not finished</h2>
<div class="wide"><table>
<thead><tr><th class="text">state</th><th>runs</th><th class="text">method</th>{% for axis in part.axes %}<th class="text">{{ axis }}</th>{% endfor %}
<th class="text">reason</th></tr></thead>
<tbody>{% for row in part.unfinished %}
<tr><th class="bad">{{ row.state }}</th><td>{{ row.n }}</td><td class="text">{{ row.method }}</td>
{% for axis in part.axes %}<td class="text">{{ row[axis] }}</td>{% endfor %}
<td class="text">{{ row.failure }}</td></tr>{% endfor %}
</tbody></table></div>
{% endif %}
"""
    + TABLES
)
TEMPLATE += """\
{% for name, figure in part.curves.items() %}
{% if loop.first %}<h2>Learning curves</h2>
<p class="hint">Mean over seeds; {{ part.bands }}{% if experiment.published %}; dotted: published, where it is of the same experiment{% endif %}.
A click on a method hides it, a double click shows it alone; drag to zoom, double click to go back.</p>{% endif %}
{% if name %}<h3>{{ name }}</h3>{% endif %}
{{ figure }}
{% endfor %}
{% for name, figure in part.partitions.items() %}
{% if loop.first %}<h2>Who holds what</h2><p class="hint">Images by client and class, first seed.</p>{% endif %}
<h3>{{ name }}</h3>
{{ figure }}
{% endfor %}
{% if part.runs and not part.partitions %}
<h2>Who holds what</h2><p class="hint">The partitions of these runs are not on this machine: snakemake --profile profiles/local partitions.</p>
{% endif %}
{% if part.costs %}
<h2>Costs</h2>
<p class="hint">Means over finished runs, whichever domains they hold out; memory: the highest. Sent: what clients send up and get down in the whole run, a dash where one client holds all images. GMAC: of all passes of training that the run counted (the networks of the method, without evaluation), a backward one as two forward ones.</p>
<div class="wide"><table>
<thead><tr><th class="text">method</th><th>runs</th><th>MB up</th><th>MB down</th><th>MMAC an image</th><th>GMAC forward</th><th>GMAC backward</th><th>seconds</th><th>memory (MB)</th></tr></thead>
<tbody>{% for row in part.costs %}
<tr><th>{{ row.method }}</th><td>{{ row.runs }}</td><td>{{ number(row.up) }}</td><td>{{ number(row.down) }}</td><td>{{ number(row.mmacs_image) }}</td>
<td>{{ number(row.gmacs_forward) }}</td><td>{{ number(row.gmacs_backward) }}</td><td>{{ number(row.seconds) }}</td><td>{{ number(row.memory) }}</td></tr>{% endfor %}
</tbody></table></div>
{{ part.against_costs }}
{% endif %}
{% if part.runs %}
<h2>Where the numbers come from</h2>
<dl>{% for what, values in part.provenance.items() %}
<dt>{{ what }}</dt><dd>{% for value, n in values %}<code>{{ value }}</code> ({{ n }} run{{ "s" if n > 1 }}){% if not loop.last %}<br>{% endif %}{% endfor %}</dd>{% endfor %}
<dt>experiment</dt><dd><code>{{ part.file }}</code></dd></dl>
<details><summary>Every finished run, with its content hashes</summary>
<div class="wide"><table>
<thead><tr><th class="text">run</th><th class="text">partition</th><th class="text">images</th><th class="text">last weights</th><th>seconds</th></tr></thead>
<tbody>{% for run in part.runs %}
<tr><th><code>{{ run.directory }}</code></th><td><code>{{ run.partition }}</code></td><td><code>{{ run.prepared }}</code></td><td><code>{{ run.weights }}</code></td>
<td>{{ number(run.seconds) }}</td></tr>{% endfor %}
</tbody></table></div></details>
{% endif %}
</section>
{% endfor %}
</body>
</html>
"""


def number(value: float) -> str:
    """Three digits or so, thousands set apart; a dash for what was not measured."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
