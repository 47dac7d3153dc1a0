"""Commands that make baselines: whiten, flow, static-words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import LOADING, TEXT_READING, Loading, TextReading, check_new_model, with_bundles
from nearer.cli.output import say, show_report
from nearer.errors import SettingError

FitCorpus = Annotated[
    str | None, typer.Option(help="Text to fit on. With several --columns, all of them are used (NLI: sent0,sent1).")
]
FitTasks = Annotated[
    str | None, typer.Option(help="Fit on the sentences of these tasks instead (target setting): stsb, or a file.")
]
FitData = Annotated[Path | None, typer.Option(help="Folder of the STS sets, for --tasks.")]


@with_bundles
def whiten(
    model: options.Model,
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    corpus: FitCorpus = None,
    tasks: FitTasks = None,
    data: FitData = None,
    dimension: Annotated[int | None, typer.Option(min=1, help="Keep only so many directions. Default: all.")] = None,
    loading: Loading = LOADING,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Whiten a model's vectors. The whitening is fitted on a text and saved as a layer of the model."""
    from nearer.baselines import whiten as fit
    from nearer.encoder import Encoder

    check_new_model(out)
    sentences = _sentences(corpus, tasks, data, text_reading)
    encoder = Encoder.load(model, **loading.arguments())
    made = fit(encoder, sentences, dimension=dimension, text=corpus or f"tasks {tasks}", progress=True)
    made.save(out)
    facts = made.provenance["whitening"]
    say(f"{out}: whitened on {facts['sentences']:,} different sentences, {encoder.dimension} → {made.dimension}")


@with_bundles
def flow(
    model: options.Model,
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    corpus: FitCorpus = None,
    tasks: FitTasks = None,
    data: FitData = None,
    epochs: Annotated[int, typer.Option(min=1, help="How often the text is gone through.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Random numbers of the fit.")] = 0,
    loading: Loading = LOADING,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Map a model's vectors to a standard normal (BERT-flow). The flow is fitted on a text and saved with the model."""
    from nearer.baselines import fit_flow
    from nearer.encoder import Encoder

    check_new_model(out)
    sentences = _sentences(corpus, tasks, data, text_reading)
    encoder = Encoder.load(model, **loading.arguments())
    text = corpus or f"tasks {tasks}"
    made = fit_flow(encoder, sentences, epochs=epochs, seed=seed, text=text, progress=True)
    made.save(out)
    say(f"{out}: a flow fitted on {made.provenance['flow']['sentences']:,} different sentences")


@with_bundles
def static_words(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Word vectors as text: GloVe, word2vec, fastText; .gz …")],
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    needed: Annotated[
        str | None, typer.Option(help="Keep only words that are in this text. Use it for files larger than memory.")
    ] = None,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Make a model of word vectors: a sentence is the mean of its words."""
    from nearer.baselines import StaticWords

    check_new_model(out)
    text = None if needed is None else _corpus_sentences(needed, text_reading)
    made = StaticWords.read(file, needed=text, progress=True)
    made.save(out)
    repeated = made.provenance["repeated"]
    told = f", {repeated:,} repeated lines left out" if repeated else ""
    say(f"{out}: {len(made.words):,} words, {made.dimension} dimensions{told}")


def _sentences(corpus: str | None, tasks: str | None, data: Path | None, text_reading: TextReading) -> list[str]:
    """The text to fit on."""
    if (corpus is None) == (tasks is None):
        raise SettingError("--corpus or --tasks: name the text to fit on, one of the two.")
    if tasks is not None:
        return _task_sentences(tasks, data)
    assert corpus is not None
    return list(_corpus_sentences(corpus, text_reading))


def _corpus_sentences(corpus: str, text_reading: TextReading) -> Iterator[str]:
    """The sentences of each column in turn."""
    from nearer.text import read_sentences

    for column in options.column_names(text_reading.columns) or (None,):
        reading = read_sentences(corpus, **replace(text_reading, columns=column).arguments())
        yield from reading
        show_report(reading.report)
        reading.report.check_kept(told=True)


def _task_sentences(tasks: str, data: Path | None) -> list[str]:
    from nearer.evaluation import load_tasks

    loaded = load_tasks(options.split_names(tasks), data)
    return [sentence for task in loaded for sentence in task.sentences()]
