"""The picture of a soak: what each process occupied, when harm was done. Knows samples alone."""

from collections.abc import Sequence
from io import StringIO
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from soak.samples import Sampler

__all__ = ["chart"]

_MIB: Final = 1 << 20
# What is drawn of each figure, and by what its values are divided.
_PANELS: Final = (
    ("memory", "anonymous memory, MiB", _MIB),
    ("descriptors", "descriptors", 1),
    ("threads", "threads", 1),
    ("disk", "disk, MiB", _MIB),
)
# More points of one line are not seen.
_POINTS_MAX: Final = 400
_SECONDS_PER_MINUTE: Final = 60


def chart(sampler: Sampler, harm: Sequence[tuple[float, float, str]]) -> str:
    """Returns the picture as SVG: a panel per figure, a line per process, grey where harm was done.

    Args:
        sampler: The samples.
        harm: When harm was done, for how long, and what.
    """
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mqcore", "font.size": 9}):
        figure = Figure(figsize=(8, 9), facecolor="white", layout="constrained")
        panels = figure.subplots(len(_PANELS), 1, sharex=True)
        for axes, (column, label, unit) in zip(panels, _PANELS, strict=True):
            for name, series in sorted(sampler.series.items()):
                values = np.array(series.values[column]) / unit
                if not values.any():
                    continue
                step = max(1, len(values) // _POINTS_MAX)
                minutes = np.array(series.seconds)[::step] / _SECONDS_PER_MINUTE
                axes.plot(minutes, values[::step], label=name, linewidth=0.9)
            for at, lasted, _ in harm:
                begin, end = at / _SECONDS_PER_MINUTE, (at + lasted) / _SECONDS_PER_MINUTE
                axes.axvspan(begin, end, color="0.88", linewidth=0)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0].legend(loc="upper left", ncols=4, frameon=False, fontsize=8)
        panels[-1].set_xlabel("minutes")
        picture = StringIO()
        facts = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(picture, format="svg", metadata=facts)
    return picture.getvalue()
