"""Draw the charts of docs/performance.md.

Usage::

    python benchmarks/charts.py [NAME ...]         # measure anew, write docs/charts/NAME.json, draw
    python benchmarks/charts.py --draw [NAME ...]  # draw what those files hold

A chart shows the least time of each call, on a logarithmic scale. docs/copy.svg, of bandwidths, is
``benchmarks/copy.py --chart docs/copy.svg``.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
CHARTS = HERE.parent / "docs" / "charts"

# Readable on white and on black: an SVG in a page does not see the page's colours.
STYLE = """
text { font: 12px sans-serif; fill: #777 }
.candle { fill: #d9480f }
.other { fill: #868e96 }
.grid { stroke: #8884; stroke-width: 1 }
"""


class Bar(NamedTuple):
    """One call and what it takes."""

    label: str
    value: float
    is_candle: bool


class Chart(NamedTuple):
    """How a report of a benchmark becomes a chart."""

    title: str
    unit: str
    bars: Callable[[dict[str, Any]], list[Bar]]


def overhead(report: dict[str, Any]) -> list[Bar]:
    """Give the calls on one small tensor, the same again and again."""
    return [
        Bar(name, least["same"], "candle" in name.partition("(")[0])
        for name, least in report["nanoseconds"].items()
    ]


def convert(report: dict[str, Any]) -> list[Bar]:
    """Give candle and the loop by hand, for each tree."""
    return [
        Bar(f"{case}: {way}", value, way == "candle")
        for case, least in report["microseconds"].items()
        for way, value in least.items()
    ]


def files(report: dict[str, Any]) -> list[Bar]:
    """Give the ways of loading and saving, in each case."""
    return [
        Bar(f"{case}: {way}", 1000 * value, way.startswith("candle"))
        for case, least in report["seconds"].items()
        for way, value in least.items()
    ]


CHARTS_OF = {
    "overhead": Chart("One call on a tensor of 2 x 3 elements", "ns", overhead),
    "convert": Chart("A tree of 100 tensors", "us", convert),
    "files": Chart("Files of tensors", "ms", files),
}


def drawn(name: str, report: dict[str, Any]) -> str:
    """Draw a chart as an SVG."""
    chart = CHARTS_OF[name]
    bars = chart.bars(report)
    left, width, top, step = 330, 380, 50, 20
    low = math.floor(math.log10(min(bar.value for bar in bars)))
    high = math.ceil(math.log10(max(bar.value for bar in bars)))
    unit = width / (high - low)
    height, across = top + len(bars) * step + 30, left + width + 80
    bottom = height - 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {height}" '
        f'width="{across}" height="{height}" role="img">',
        f"<title>{escape(chart.title)}, in {chart.unit}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{left}" y="20">{escape(chart.title)}: {chart.unit}, logarithmic</text>',
    ]
    for power in range(low, high + 1):
        x = left + (power - low) * unit
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for i, bar in enumerate(bars):
        y = top + i * step
        long = max(1.0, (math.log10(bar.value) - low) * unit)
        kind = "candle" if bar.is_candle else "other"
        parts.append(
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
        )
        parts.append(
            f'<rect class="{kind}" x="{left}" y="{y + 2}" width="{long:.1f}" height="12" rx="2"/>'
        )
        parts.append(f'<text x="{left + long + 6:.1f}" y="{y + 12}">{bar.value:.3g}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    """Measure, unless told not to, and draw."""
    parser = argparse.ArgumentParser(description="The charts of docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHARTS_OF))
    parser.add_argument("--draw", action="store_true", help="do not measure")
    options = parser.parse_args()
    for name in options.names or CHARTS_OF:
        if name not in CHARTS_OF:
            parser.error(f"{name}: not one of {', '.join(CHARTS_OF)}")
        figures = CHARTS / f"{name}.json"
        if not options.draw:
            command = [sys.executable, HERE / f"{name}.py", "--json", figures]
            subprocess.run(command, check=True)
        chart = drawn(name, json.loads(figures.read_text()))
        (CHARTS / f"{name}.svg").write_text(chart)
    return 0


if __name__ == "__main__":
    sys.exit(main())
