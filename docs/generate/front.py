"""The picture of README.md: every method minus FedAvg on held-out domains, from saved results, as an SVG file."""

from pathlib import Path
from xml.sax.saxutils import escape

import pandas as pd

KEPT = Path(__file__).parents[1] / "results" / "unified"
LINE = "fedavg-uniform-6-epochs"
WIDTH, LEFT, RIGHT, TOP, STEP = 480, 96, 466, 66, 17
LOWEST, HIGHEST = -17, 17  # points; what is outside has an arrow
FONT = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
DARK = (
    ".page { fill: #16191f } .ink { fill: #eef1f6 } .soft { fill: #b4bdcb } .grid { stroke: #343c48 } "
    ".axis { stroke: #b4bdcb } .above { stroke: #5aa9e6; fill: #5aa9e6 } .below { stroke: #d98a6a; fill: #d98a6a } "
    ".open { stroke: #98a3b3; fill: #16191f } .level { stroke: #e0a63f } .mark { fill: #e0a63f }"
)


def picture() -> str:
    """The text of docs/images/methods.svg."""
    ranks = pd.read_csv(KEPT / "first_pass" / "ranks.csv")
    weights = pd.read_csv(KEPT / "equal_weights" / "weights.csv").query("metric == 'ood'")
    means = weights.groupby("method")["mean"].mean()
    level = means[LINE] - means["fedavg"]
    bottom = TOP + STEP * len(ranks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 32}" width="{WIDTH}" '
        f'height="{bottom + 32}" role="img" aria-labelledby="title">',
        '<title id="title">Accuracy on held-out domains minus that of FedAvg, for each method</title>',
        f"<style>@media (prefers-color-scheme: dark) {{ {DARK} }}</style>",
        f'<rect class="page" width="{WIDTH}" height="{bottom + 32}" rx="10" fill="#ffffff"/>',
        _text(14, 24, "Held-out accuracy minus FedAvg's, in points", 15, weight=600),
    ]
    for value in range(-15, 16, 5):
        kind, colour = ("grid", "#dde2e9") if value else ("axis", "#1f2430")
        parts.append(_line(_x(value), TOP - 6, _x(value), bottom, kind, colour))
        parts.append(_text(_x(value), bottom + 18, f"{value:+d}" if value else "0", 12, "soft", "middle"))
    parts.append(_line(_x(level), TOP - 6, _x(level), bottom, "level", "#b36b00", 'stroke-dasharray="5 4"'))
    parts.append(
        _text(RIGHT, TOP - 14, "FedAvg, uniform weights, 3x local epochs", 13, "mark", "end", 600, "#b36b00")
    )
    for place, row in enumerate(ranks.to_dict("records")):
        y = TOP + STEP * (place + 0.5)
        parts.append(_text(LEFT - 8, y + 4, str(row["method"]), 13, anchor="end"))
        parts += _mark(y, float(row["difference"]), float(row["low"]), float(row["high"]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _mark(y: float, value: float, low: float, high: float) -> list[str]:
    if value < LOWEST:
        text = f"\N{LEFTWARDS ARROW} \N{MINUS SIGN}{-value:.0f}"
        return [_text(_x(LOWEST), y + 4, text, 13, "soft")]
    kind, colour, fill = "open", "#6b7586", "#ffffff"
    if low > 0:
        kind, colour, fill = "above", "#2f7fc1", "#2f7fc1"
    elif high < 0:
        kind, colour, fill = "below", "#b5583a", "#b5583a"
    bar = _line(_x(low), y, _x(high), y, kind, colour, 'stroke-width="2"') if low < high else ""
    dot = f'<circle class="{kind}" cx="{_x(value):.1f}" cy="{y:.1f}" r="4" stroke="{colour}" fill="{fill}" stroke-width="1.5"/>'
    return [bar, dot] if bar else [dot]


def _x(value: float) -> float:
    inside = min(max(value, LOWEST), HIGHEST)
    return LEFT + (RIGHT - LEFT) * (inside - LOWEST) / (HIGHEST - LOWEST)


def _line(x: float, y: float, to: float, end: float, kind: str, colour: str, more: str = "") -> str:
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f} L{to:.1f} {end:.1f}" fill="none" stroke="{colour}" {more}/>'


def _text(
    x: float, y: float, text: str, size: int, kind: str = "ink", anchor: str = "start", weight: int = 400,
    colour: str = "",
) -> str:  # fmt: skip
    colour = colour or {"ink": "#1f2430", "soft": "#5a6474"}[kind]
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" {FONT} font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" class="{kind}" fill="{colour}">{escape(text)}</text>'
    )
