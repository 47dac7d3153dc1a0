"""Commands about data: look into a file, check a data folder, fetch the STS sets, tokenise a corpus."""

from __future__ import annotations

import itertools
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from nearer.cli import options
from nearer.cli.bundles import TEXT_READING, TextReading, with_bundles
from nearer.cli.output import one_line, put_data, say, show_report, show_table
from nearer.errors import InputError, NearerError, SettingError
from nearer.text.faults import Fault
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SHAPES

app = typer.Typer(no_args_is_help=True, help="Read, check and fetch data.")


class Kind(StrEnum):
    sentences = "sentences"
    pairs = "pairs"
    labelled = "labelled"
    triplets = "triplets"
    debiased = "debiased"
    lists = "lists"
    scored = "scored"


@app.command("read")
@with_bundles
def read(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="txt, csv, tsv, jsonl, parquet (.gz .xz .zst), hf:NAME, -; a folder of scored lists."
        ),
    ],
    kind: Annotated[Kind, typer.Option("--as", help="What a record is.")] = Kind.sentences,
    text_reading: TextReading = TEXT_READING,
    strip_contained: options.StripContained = False,
    show: Annotated[int, typer.Option(min=0, help="Print the first so many records.")] = 3,
) -> None:
    """Read a file to the end and say what is in it: how many records are kept, which are dropped, and why."""
    from nearer.text.scored_lists import read_as  # needs numpy

    how = text_reading.arguments()
    reading = read_as(kind.value, file, ReadOptions(**how, strip_contained=strip_contained))
    records = reading.located()
    for line, record in itertools.islice(records, show):
        put_data(f"{line}\t{one_line(str(record))}")
    for _ in records:
        pass
    say(str(reading.report))
    contained = reading.report.count(Fault.CONTAINED)
    if contained:
        share = contained / reading.report.kept
        say(f"  {share:.0%} of the pairs can be matched by their words alone: training on them teaches little")
    reading.report.check_kept(told=True)


@app.command("tokenize")
@with_bundles
def tokenize(
    model: options.Model,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The corpus.")],
    kind: Annotated[Kind, typer.Option("--as", help="What a record is.")] = Kind.sentences,
    max_length: Annotated[int, typer.Option(min=3, help="Cut sentences after so many tokens.")] = 32,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Tokenise a corpus before training. Training finds the result again."""
    if kind is Kind.scored:
        raise SettingError(
            "--as: scored lists are tokenised when they are trained on, queries and passages by themselves."
        )
    from nearer.encoder.sources import find_folder
    from nearer.encoder.tokenizer import load_tokenizer
    from nearer.text.token_store import open_store

    reading: Reading[object] = Reading(file, SHAPES[kind.value], ReadOptions(**text_reading.arguments()))
    store = open_store(reading, load_tokenizer(find_folder(model)), max_length=max_length, progress=True)
    show_report(reading.report)
    mean = len(store.tokens) / store.sentences
    dropped = store.facts["report"]["dropped"]  # also where the store was built by an earlier run
    say(
        f"{store.folder}: {len(store):,} records ({dropped:,} dropped), {store.sentences:,} sentences, "
        f"{mean:.1f} tokens each, {store.cut or 0:,} cut at {max_length} (--max-length)"
    )


@app.command("check")
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A data folder.")],
) -> None:
    """Show which STS sets a folder holds, and whether all their pairs are there."""
    from nearer.evaluation.sts_sets import TASKS

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder.")
    table = Table()
    for column in ("task", "layout", "pairs", "state"):
        table.add_column(column)
    rows = {name: _state(name, folder) for name in TASKS}
    for name, row in rows.items():
        table.add_row(name, *row)
    show_table(Group(str(folder), table))
    states = [state.partition(" ")[0] for _, _, state in rows.values()]
    if set(states) == {"missing"}:
        raise InputError(f"{folder}: holds none of the STS sets.")
    faulty = len(states) - states.count("complete") - states.count("missing")
    if faulty:
        raise InputError(f"{folder}: {faulty} of the sets are damaged or changed.")


def _state(name: str, folder: Path) -> tuple[str, str, str]:
    """Layout, number of pairs and state of one set."""
    from nearer.evaluation.sts_data import MissingData, load_sts, verify
    from nearer.evaluation.sts_sets import TASKS

    try:
        [task] = load_sts([name], folder)
    except MissingData as error:
        return "", "", f"missing ({error.path.relative_to(folder)})"
    except NearerError as error:
        said = str(error).splitlines()[0]
        return "", "", f"damaged ({said.removeprefix(f'{folder}/').removeprefix(f'{folder}: ').removesuffix('.')})"
    set_name, split = TASKS[name]
    changed = task.layout == "flat" and not verify(folder / f"{set_name}.{split}.jsonl")
    return task.layout, f"{len(task.pairs):,}", "changed since it was fetched" if changed else "complete"


@app.command("get")
def get(
    what: Annotated[str, typer.Argument(metavar="SET", help="sts")],
    out: Annotated[Path, typer.Option(help="Folder to put the files in.")] = Path("data/sts"),
    mirror: Annotated[Path | None, typer.Option(help="Take the hub's data sets from copies in this folder.")] = None,
) -> None:
    """Fetch the STS sets from the Hugging Face hub (pinned revisions, counts and checksums verified)."""
    from nearer.evaluation.sts_data import fetch_sts

    if what != "sts":
        raise InputError(f"{what}: not a data set that can be fetched; 'sts' is.")
    fetch_sts(out, mirror=mirror, report=say)
    say(f"ready: nearer evaluate MODEL --tasks sts12,sts13,sts14,sts15,sts16,stsb,sick-r-all --data {out}")
