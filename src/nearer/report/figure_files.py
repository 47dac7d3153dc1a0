"""All drawings of a page as SVG and PNG files, for papers and slides; these are drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearer.errors import InputError
from nearer.extras import require
from nearer.report.curves import curve_names, title
from nearer.report.measured import Measured
from nearer.report.subjects import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check_figures(folder: Path) -> None:
    """Whether they can be drawn and written, before models are loaded."""
    require("matplotlib", "plots", "--figures: drawing figures as files")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a folder ({error.strerror}).") from None


def write_figures(subjects: Sequence[Subject], measured: Measured, folder: Path) -> list[Path]:
    """Curves and analyses, each as SVG and PNG; those there are replaced."""
    from nearer.analysis.figures import figure_of, save_figure
    from nearer.analysis.plots import gallery

    runs = [subject for subject in subjects if subject.run is not None]
    figures = {
        f"curve-{number:02d}-{_slug(name)}": figure_of(partial(_draw_curve, runs=runs, name=name), title=title(name))
        for number, name in enumerate(curve_names([subject.run.metrics for subject in runs if subject.run]), start=1)
    }
    if measured.analyses:
        figures |= gallery(measured.analyses, measured.compared)
    return [
        save_figure(figure, folder / f"{name}.{kind}") for name, figure in figures.items() for kind in ("svg", "png")
    ]


def _draw_curve(axes: Axes, *, runs: Sequence[Subject], name: str) -> None:
    from nearer.analysis.figures import COLOURS

    for subject in runs:
        if subject.run is not None:
            steps, values = subject.run.metrics.series(name)
            if steps:
                axes.plot(steps, values, color=COLOURS[subject.series % len(COLOURS)], label=subject.label)
    axes.grid(axis="y")
    axes.set_xlabel("step")
    axes.set_ylabel(name.replace("_", " "))
    if len(runs) > 1:
        axes.legend(fontsize="small")


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
