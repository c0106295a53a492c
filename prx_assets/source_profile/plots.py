"""The profile as small pictures that fit into a materialization's metadata."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from prx_assets.image.buckets import LEVELS, min_pixels, table
from prx_assets.image.eligibility import MAX_ASPECT, MIN_PIXELS
from prx_assets.source_profile.profile import (
    ASPECT_EDGES,
    BYTES_EDGES,
    CAPTION_EDGES,
    SIDE_EDGES,
    Counts,
    Profile,
)

MOST_BYTES = 60_000
"""A picture's data URI stays under this, since it lies in the event log."""

_BLUE, _RED, _GRAY = "#2b6cb0", "#c53030", "#4a5568"
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


def shapes(profile: Profile) -> str:
    """Draws resolution against aspect ratio with the cut and the levels, as Markdown."""
    figure, axes = _axes(1, (6.4, 4.4))
    plot = axes[0]
    counts = np.where(profile.shapes.T > 0, profile.shapes.T, np.nan)
    norm = LogNorm(1, max(10, int(profile.shapes.max())))
    mesh = plot.pcolormesh(SIDE_EDGES, ASPECT_EDGES, counts, cmap="viridis_r", norm=norm)
    bar = figure.colorbar(mesh, ax=plot, label="images", format="{x:,.0f}")
    bar.ax.tick_params(labelsize=8, colors=_GRAY)
    plot.set(xscale="log", yscale="log", xlim=(64, 8192), ylim=(0.2, 5))
    low, high = 1 / MAX_ASPECT, MAX_ASPECT
    cut = MIN_PIXELS**0.5
    plot.plot([8192, cut, cut, 8192], [low, low, high, high], color=_RED, lw=1.6)
    plot.text(cut * 1.05, high * 1.1, "used inside this line", color=_RED, fontsize=8, bbox=_PAPER)
    for level in LEVELS:
        side = min_pixels(level) ** 0.5
        if level > LEVELS[0]:
            plot.plot([side, side], [low, high], color=_RED, lw=0.8, ls=":")
        plot.text(side * 1.05, low * 1.1, str(level), color=_RED, fontsize=7, bbox=_PAPER)
    _ticks(plot, "x", [64, 128, 256, 512, 1024, 2048, 4096, 8192])
    _ticks(plot, "y", [0.25, 0.5, 1, 2, 4])
    plot.set(xlabel="resolution: √(width · height) in pixels", ylabel="width / height")
    plot.set_title(f"Sizes and shapes: {profile.eligible:,} of {profile.rows:,} rows eligible")
    return _markdown(figure, "Resolution against aspect ratio")


def buckets(profile: Profile) -> str:
    """Draws the eligible images per level and bucket, as Markdown."""
    figure, axes = _axes(1, (6.4, 3.0))
    plot = axes[0]
    names = [bucket.dir for bucket in table()[LEVELS[0]]]
    bottom = np.zeros(len(names))
    for level, colour in zip(LEVELS, ("#90cdf4", "#4299e1", "#2b6cb0", "#1a365d"), strict=True):
        counts = np.array([profile.buckets[level, index] for index in range(len(names))])
        plot.bar(names, counts, bottom=bottom, color=colour, label=f"{level}", width=0.8)
        bottom += counts
    plot.legend(title="level", fontsize=8, title_fontsize=8, frameon=False)
    plot.tick_params(axis="x", labelsize=7)
    plot.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    plot.set(xlabel="bucket: width / height", ylabel="images")
    plot.set_title("Eligible images per bucket")
    return _markdown(figure, "Images per bucket")


def files(profile: Profile) -> str:
    """Draws file sizes, JPEG quality and caption lengths, as Markdown."""
    figure, axes = _axes(3, (9.6, 2.8))
    _histogram(axes[0], profile.sizes, BYTES_EDGES, "File size", "bytes")
    axes[0].xaxis.set_major_formatter(EngFormatter(sep=""))
    _histogram(axes[1], profile.qualities, np.arange(102) - 0.5, "JPEG quality", "estimate")
    axes[1].set(xscale="linear", xlim=(0, 100))
    _histogram(axes[2], profile.caption_lengths, CAPTION_EDGES, "Original captions", "characters")
    axes[2].set_xlim(1, 10_000)
    _ticks(axes[2], "x", [1, 10, 100, 1000, 10_000])
    return _markdown(figure, "File sizes, JPEG quality, caption lengths")


def _axes(count: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    # No pyplot: it keeps every figure and picks a window system.
    figure = Figure(figsize=size, dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, count, place + 1) for place in range(count)]
    for plot in axes:
        plot.spines[["top", "right"]].set_visible(False)
        plot.tick_params(labelsize=8, colors=_GRAY)
        plot.title.set_fontsize(10)
    return figure, axes


def _histogram(
    plot: Axes, counts: Counts, edges: NDArray[np.float64], title: str, label: str
) -> None:
    plot.stairs(counts, edges, fill=True, color=_BLUE)
    filled = np.flatnonzero(counts)
    if len(filled):
        plot.set_xlim(edges[max(0, filled[0] - 2)], edges[min(len(edges) - 1, filled[-1] + 3)])
    else:
        plot.text(0.5, 0.5, "none", transform=plot.transAxes, ha="center", color=_GRAY)
    plot.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    plot.set(xscale="log", xlabel=label, ylabel="images", title=title)


def _ticks(plot: Axes, axis: str, values: list[float]) -> None:
    side = plot.xaxis if axis == "x" else plot.yaxis
    side.set_major_locator(FixedLocator(values))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(lambda value, _: f"{value:g}")


def _markdown(figure: Figure, title: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return f"![{title}](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})"
