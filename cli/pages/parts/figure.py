"""A figure: one row of bars over time, as inline SVG for people and as numbers for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

WIDTH: Final = 600  # of the drawing's own units: it is as wide as the page
HEIGHT: Final = 80
GAP: Final = 1  # between two bars
LEAST: Final = 1.5  # the height of a bar that is not zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The content of a figure.

    ``about``: one sentence. ``values``: the heights of the bars, the oldest first; ``labels``: a
    text for each, which a browser shows at the bar. ``first``, ``last``: the ends of the axis.
    """

    about: str
    values: Sequence[float]
    labels: Sequence[str]
    first: str
    last: str

    def document(self) -> dict[str, Any]:
        """Return the values."""
        return {"values": list(self.values)}

    def html(self, _path: str, _query: Mapping[str, str]) -> str:
        """Return the figure; the highest bar is as high as the figure."""
        step, most = WIDTH / max(len(self.values), 1), max(self.values, default=0.0)
        bars = "".join(
            self._bar(at, value / most, step=step)
            for at, value in enumerate(self.values)
            if value > 0
        )
        return (
            f"<p>{escape(self.about)}</p>"
            f'<svg class="bars" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
            f'role="img" aria-label="{escape(self.about)}">{bars}</svg>'
            f'<p class="axis"><span>{escape(self.first)}</span><span>{escape(self.last)}</span></p>'
        )

    def _bar(self, at: int, share: float, *, step: float) -> str:
        height = max(share * HEIGHT, LEAST)
        return (
            f'<rect x="{at * step:.1f}" y="{HEIGHT - height:.1f}" width="{step - GAP:.1f}" '
            f'height="{height:.1f}"><title>{escape(self.labels[at])}</title></rect>'
        )
