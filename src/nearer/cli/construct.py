"""Commands that build training data: construct debiased, neighbours, lists, triplets, queries, inspect."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import construct_lists, construct_queries, construct_triplets, options
from nearer.cli.bundles import LOADING, TEXT_READING, Loading, TextReading, with_bundles
from nearer.cli.output import say, show_report, show_table
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.construct.debiased import DebiasedBuilder
    from nearer.text.reading import Reading
    from nearer.text.records import Triplet

app = typer.Typer(no_args_is_help=True, help="Build training data from raw sentences.")
app.command("lists")(construct_lists.lists)
app.command("triplets")(construct_triplets.triplets)
app.command("queries")(construct_queries.queries)
app.command("inspect")(construct_lists.inspect)


class Level(StrEnum):
    characters = "characters"
    words = "words"


@app.command("neighbours")
@with_bundles
def neighbours(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="Running text, a sentence a line; an empty line ends a document.")
    ],
    out: Annotated[Path, typer.Option(help="The new file of pairs, as JSON lines.")],
    within: Annotated[int, typer.Option(min=1, help="Draw the second sentence from so many that follow.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed: decides which ones.")] = 0,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Pair each sentence with one that follows it, to train on with data=pairs."""
    from nearer.construct.neighbours import write_neighbours
    from nearer.text import read_sentences

    reading = read_sentences(corpus, **text_reading.arguments())
    count = write_neighbours(reading, out, within=within, seed=seed)
    show_report(reading.report)
    say(f"{out}: {count:,} pairs")


@app.command("debiased")
@with_bundles
def debiased(
    corpus: Annotated[str, typer.Option(help="Text: txt, csv, tsv, jsonl, parquet, hf:NAME.")],
    model: Annotated[str, typer.Option(help="A trained encoder, such as unsupervised SimCSE. Its cosines decide.")],
    out: Annotated[Path, typer.Option(help="Folder of the data set. The same command continues an interrupted one.")],
    generator: Annotated[
        str, typer.Option(help="How positives are made: noise, back-translation:EN_FR,FR_EN or paraphrase:MODEL.")
    ] = "noise",
    positives: Annotated[int, typer.Option(min=1, help="How many positives each sentence gets.")] = 2,
    negatives: Annotated[int, typer.Option(min=1, help="How many negatives each sentence gets.")] = 2,
    cosines: Annotated[
        str, typer.Option("--range", metavar="LOW,HIGH", help="Negative candidates have a cosine in this range.")
    ] = "0.25,0.75",
    pool_size: Annotated[int, typer.Option(min=1, help="Negative candidates for each sentence.")] = 64,
    scan: Annotated[
        int,
        typer.Option(
            min=0, help="Look at no more than so many sentences for candidates; 0: at the whole corpus if needed."
        ),
    ] = 20_000,
    candidates: Annotated[int, typer.Option(min=1, help="Positive candidates generated for each sentence.")] = 4,
    negative_semantic_weight: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0,
            max=1,
            help="λ_n: how much the meaning of negatives counts, compared with their words.",
        ),
    ] = 0.8,
    positive_semantic_weight: Annotated[
        float, typer.Option(callback=options.finite, min=0, max=1, help="λ_p: the same for positives.")
    ] = 0.8,
    sharpness: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0,
            help="Multiplies the exponents of Eq. 4 and 6. 1: as in the paper, which is nearly uniform.",
        ),
    ] = 1.0,
    edit_level: Annotated[Level, typer.Option(help="What an edit distance counts.")] = Level.characters,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="The one seed of pools, noise and sampling.")
    ] = 0,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use only the first so many sentences. A later run without this option continues."),
    ] = None,
    format: Annotated[options.FormatName, typer.Option(help="How the data set is written.")] = options.FormatName.jsonl,
    nli: Annotated[
        str | None, typer.Option(metavar="TRIPLETS", help="A file of NLI triplets to compare the samples with.")
    ] = None,
    loading: Loading = LOADING,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Sample positives and negatives for each sentence by inverse propensity (DebCSE).

    Positives mean the same in other words; negatives look alike and mean something else. If a run was
    interrupted, the same command continues it.
    """
    from nearer.construct.debiased import DebiasedBuilder
    from nearer.construct.debiased_sampler import DebiasedSettings
    from nearer.construct.positives import WordFrequencies, generator_by_name
    from nearer.encoder import Encoder
    from nearer.teachers.teacher import teacher_precision
    from nearer.teachers.vector_store import VectorStore
    from nearer.text import read_sentences, read_triplets

    low, high = _bounds(cosines)
    settings = DebiasedSettings(
        positives=positives,
        negatives=negatives,
        low=low,
        high=high,
        pool_size=pool_size,
        scan=scan,
        candidates=candidates,
        negative_semantic_weight=negative_semantic_weight,
        positive_semantic_weight=positive_semantic_weight,
        sharpness=sharpness,
        edit_level=edit_level.value,
        seed=seed,
    )
    # what can be wrong without a model first: loading and encoding take time
    reading = read_sentences(corpus, **text_reading.arguments())
    reading.fingerprint()
    triplets = None if nli is None else read_triplets(nli)
    if triplets is not None:
        triplets.fingerprint()
    encoder = Encoder.load(
        model,
        **loading.arguments(),
    )
    store = VectorStore(encoder, precision=teacher_precision(encoder.device))
    made = generator_by_name(generator, words=lambda: WordFrequencies.of(reading), device=encoder.device)
    builder = DebiasedBuilder(out, reading, store, made, settings, limit=limit, format=format.value)
    try:
        builder.learn(progress=True)
        show_report(reading.report)
        builder.build(progress=True)
    except KeyboardInterrupt:
        of_all = f" of {builder.wanted:,}" if builder.wanted else ""
        raise KeyboardInterrupt(
            f"stopped; {len(builder.building.done):,}{of_all} are kept; the same command goes on there"
        ) from None
    _finish(builder, triplets)


def _finish(builder: DebiasedBuilder, triplets: Reading[Triplet] | None) -> None:
    """The data set, the table, the figure, and what had to be made do with."""
    from nearer.construct import sample_table
    from nearer.errors import MissingExtraError

    assert builder.corpus is not None
    anchors = sample_table.chosen_anchors(builder.wanted)
    samples, counts = sample_table.survey(builder.building.records(), anchors)
    shown = [
        sample_table.contrastive_samples(builder.corpus, builder.store, anchors, builder.settings.seed),
        *([samples] if len(samples.positive_cosines) else []),
    ]
    if triplets is not None:
        shown.append(sample_table.supervised_samples(triplets, builder.store, builder.settings.seed))
        show_report(triplets.report)
    data = builder.finish({"samples": {some.name: some.means() for some in shown}, "counts": dict(counts)})
    show_table(sample_table.samples_table(shown))
    for line in builder.shortfalls(counts):
        say(line)
    records = len(builder.building.done) - builder.building.rejected.total()
    repeated = f", {builder.corpus.repeated:,} repeated ones left out" if builder.corpus.repeated else ""
    say(f"{data}: {records:,} records of {len(builder.corpus):,} different sentences{repeated}")
    try:
        say(f"figure: {sample_table.write_figure(shown, builder.building.folder)[0]}")
    except MissingExtraError as error:
        say(f"no figure: {error}")


def _bounds(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise SettingError(f"--range: {text!r} is not two numbers such as 0.25,0.75.") from None
    return low, high
