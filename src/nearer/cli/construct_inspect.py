"""construct inspect: ranking lists, judged by an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import options
from nearer.cli.construct_lists import DEFAULT_MODEL, load_encoder
from nearer.cli.output import say, show_report, show_table
from nearer.errors import InputError, SettingError


def inspect(
    sources: Annotated[
        list[str], typer.Argument(metavar="LISTS", help="Folders of `construct lists`, or files of lists.")
    ],
    model: Annotated[
        str, typer.Option(help="Encoder that judges: its cosine to the first sentence counts.")
    ] = DEFAULT_MODEL,
    pooling: options.Pooling = None,
    max_length: options.MaxLength = None,
    show: Annotated[int, typer.Option(min=0, help="Print so many lists with their similarities.")] = 3,
    out: Annotated[
        Path | None, typer.Option(help="Draw the average similarities of the first 16 sentences: .svg or .png.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge only the first so many lists of each folder.")] = None,
    device: options.Device = None,
) -> None:
    """Judge ranking lists: how far each is in descending order of similarity to its first sentence.

    Several sets of lists stand side by side.
    """
    from nearer.construct.inspect_lists import inspect_lists, lists_table, measures_table, save_heat_maps
    from nearer.construct.list_files import read_lists

    if out is not None:
        _check_figure(out)
    files = [read_lists(source) for source in sources]
    for file in files:
        if file.report is not None:
            show_report(file.report)
        if file.unfinished:
            say(f"{file.name}: is not finished; these are its {len(file.lists):,} lists so far")
    encoder = load_encoder(model, pooling, device, max_length)
    found = [inspect_lists(file.name, file.lists[:limit], encoder, progress=True) for file in files]
    if show:
        show_table(lists_table(found, show))
    show_table(measures_table(found))
    say(f"similarity: cosine by {model}, {encoder.settings.pooling} pooling")
    for one in found:
        if one.undefined:
            say(f"{one.name}: {one.undefined:,} lists have no order (two sentences, or all alike); tau is of the rest")
    if out is not None:
        say(f"{save_heat_maps(found, out)}: average similarities of the first sentences")


def _check_figure(out: Path) -> None:
    from nearer.analysis.figures import FORMATS
    from nearer.extras import require

    require("matplotlib", "plots", "--out: drawing a figure")
    if out.suffix.lower().lstrip(".") not in FORMATS:
        raise SettingError(f"--out: {out} is neither .svg nor .png.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist.")
