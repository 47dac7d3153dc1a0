"""The command construct triplets: a language model writes a positive and a hard negative for each sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearer.cli import options
from nearer.cli.bundles import TEXT_READING, TextReading, with_bundles
from nearer.cli.construct_lists import DEFAULT_MODEL, load_encoder
from nearer.cli.language_models import (
    BATCH_HELP,
    LLM_HELP,
    Kind,
    KindName,
    Precision,
    Temperature,
    TopP,
    choose_batch,
    tell_troubles,
)
from nearer.cli.output import say, show_report, show_table
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.construct.anchors import CorpusAnchors, ScratchAnchors
    from nearer.construct.triplets import TripletSettings, TripletsResult

CURATED = ("alpha", "beta", "gap")


@with_bundles
def triplets(
    llm: Annotated[str, typer.Option(help=LLM_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the data set. The same command continues an interrupted one.")],
    corpus: Annotated[str | None, typer.Option(help="Text whose sentences become anchors: txt, csv, jsonl, …")] = None,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="Let the model write the anchors too, from topics and genres (--limit).")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Use so many sentences, drawn at random. A later run with a higher limit, or none, continues."
        ),
    ] = None,
    curate: Annotated[
        bool, typer.Option("--curate", help="Let the model score its triplets from 0 to 5, and keep the good ones.")
    ] = False,
    alpha: Annotated[
        float | None,
        typer.Option(callback=options.finite, help="--curate: the least score of a positive. Default: 3."),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(callback=options.finite, help="--curate: the highest score of a negative. Default: 3."),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(callback=options.finite, help="--curate: the least difference of both. Default: 1."),
    ] = None,
    swap: Annotated[
        bool, typer.Option(help="--curate: swap positive and negative where the negative scores higher.")
    ] = True,
    guidance: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0,
            help="λ: move away from what the opposite instruction would give (MultiCSR).",
        ),
    ] = 0.0,
    positive_template: Annotated[
        list[Path] | None, typer.Option(help="Prompt of your own for positives, with {sentence}; may be repeated.")
    ] = None,
    negative_template: Annotated[
        list[Path] | None, typer.Option(help="Prompt of your own for hard negatives; may be repeated.")
    ] = None,
    sentence_template: Annotated[
        list[Path] | None,
        typer.Option(help="--scratch: prompt of your own, with {count}, {genre} and {topics}; may be repeated."),
    ] = None,
    score_template: Annotated[
        Path | None, typer.Option(help="--curate: prompt of your own, with {sentence} and {other}.")
    ] = None,
    genres: Annotated[Path | None, typer.Option(help="--scratch: a file with a genre a line.")] = None,
    topics: Annotated[Path | None, typer.Option(help="--scratch: a file with a topic a line.")] = None,
    shots: Annotated[int, typer.Option(min=0, help="Examples in a prompt, drawn from those of its template.")] = 5,
    attempts: Annotated[
        int, typer.Option(min=1, max=100, help="How often a sentence is asked for if answers break a rule.")
    ] = 2,
    longest: Annotated[int, typer.Option(min=4, help="Words of a sentence, at most.")] = 64,
    kind: Kind = KindName.auto,
    batch: Annotated[int | None, typer.Option(min=1, help=BATCH_HELP.format("sentences"))] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a sentence.")] = 100,
    temperature: Temperature = 0.7,
    top_p: TopP = 0.9,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of sentences, prompts and drawn tokens.")
    ] = 0,
    device: options.Device = None,
    precision: Precision = None,
    show: Annotated[int, typer.Option(min=0, help="Print so many triplets, and as many rejected ones.")] = 0,
    model: Annotated[str, typer.Option(help="Encoder whose cosines stand in the table at the end.")] = DEFAULT_MODEL,
    pooling: options.Pooling = None,
    nli: Annotated[
        str | None, typer.Option(metavar="TRIPLETS", help="A file of NLI triplets to compare the new ones with.")
    ] = None,
    format: Annotated[options.FormatName, typer.Option(help="File format of the data set.")] = options.FormatName.jsonl,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Let a language model write triplets: a sentence, one that follows from it, one that contradicts it.

    OUT/data.jsonl has a triplet a line (`nearer train syncse-bert-base --corpus OUT/data.jsonl`), OUT/about.json how it
    was made and what was rejected, and why.
    """
    from nearer.construct.construction import check_folder
    from nearer.construct.engines import is_server, load_engine
    from nearer.construct.triplets import construct_triplets
    from nearer.text import read_triplets
    from nearer.versions import library_versions

    # what can be wrong without a model first: loading it takes time
    settings = _settings(
        positive_template,
        negative_template,
        score_template,
        curation=_curation(curate, {"alpha": alpha, "beta": beta, "gap": gap}, swap, score_template),
        shots=shots,
        attempts=attempts,
        longest=longest,
        guidance=guidance,
    )
    if guidance and is_server(llm):
        raise SettingError(
            "--guidance: needs the scores of all tokens, which a chat server does not give; leave it out."
        )
    source = _source(corpus, scratch, limit, sentence_template, genres, topics, text_reading.arguments())
    compared = None if nli is None else read_triplets(nli)
    if compared is not None:
        compared.fingerprint()
    check_folder(out)
    batch = choose_batch(batch, llm, device)
    engine = load_engine(
        llm,
        kind=kind.value,
        batch=batch,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        device=device,
        precision=precision,
    )
    result = construct_triplets(
        source,
        engine,
        settings,
        out,
        seed=seed,
        limit=limit,
        format=format.value,
        notes={"llm": llm, "text": corpus, "batch": batch, "versions": library_versions()},
        progress=True,
    )
    if corpus is not None:
        show_report(source.reading.report)  # type: ignore[union-attr]  # a corpus is read
    _tell(result)
    tell_troubles(engine)
    if show:
        _show(out, show)
    _compare(result, compared, model, pooling, device, seed)


def _curation(curate: bool, thresholds: dict[str, float | None], swap: bool, template: Path | None) -> Any:
    from nearer.construct.triplet_rules import Curation

    given = {name: value for name, value in thresholds.items() if value is not None}
    if curate:
        return Curation(**given, swap=swap)
    for option, value in {**given, "score-template": template}.items():
        if value is not None:
            raise SettingError(f"--{option}: is for curation; add --curate.")
    return None


def _settings(
    positive: list[Path] | None, negative: list[Path] | None, score: Path | None, **others: Any
) -> TripletSettings:
    from nearer.construct.few_shot import read_few_shot, read_pool
    from nearer.construct.triplets import TripletSettings

    own: dict[str, Any] = {}
    for role, files in (("positive", positive), ("negative", negative)):
        if files:
            own[role] = read_pool("", ["sentence"], files)
    if score is not None:
        own["score"] = read_few_shot(score, ["sentence", "other"])
    return TripletSettings.usual(**own, **others)


def _source(
    corpus: str | None,
    scratch: bool,
    limit: int | None,
    templates: list[Path] | None,
    genres: Path | None,
    topics: Path | None,
    reading_options: dict[str, Any],
) -> CorpusAnchors | ScratchAnchors:
    from nearer.construct.anchors import CorpusAnchors, ScratchAnchors
    from nearer.construct.few_shot import read_lines, read_pool
    from nearer.construct.requests import FOLDER
    from nearer.text import read_sentences

    if (corpus is None) != scratch:
        raise SettingError("--corpus FILE (its sentences) or --scratch (sentences by the model): one is needed.")
    if corpus is not None:
        for option, value in (("sentence-template", templates), ("genres", genres), ("topics", topics)):
            if value:
                raise SettingError(f"--{option}: is for sentences from scratch; leave --corpus out and add --scratch.")
        found = CorpusAnchors(read_sentences(corpus, **reading_options))
        found.identity()  # a wrong path should not cost the loading of a model
        return found
    if limit is None:
        raise SettingError("--limit: sentences from scratch have no end; say how many, such as --limit 30000.")
    return ScratchAnchors(
        read_pool("triplet_sentences_", ["count", "genre", "topics"], templates or ()),
        read_lines(genres or FOLDER / "triplet_genres.txt"),
        read_lines(topics or FOLDER / "triplet_topics.txt"),
    )


def _tell(result: TripletsResult) -> None:
    say(f"{result.data}: {result.triplets:,} triplets of {result.anchors:,} sentences")
    if result.swapped:
        say(f"  {result.swapped:,} of them with positive and negative swapped, by their scores")
    for reason, count in result.rejected.most_common():
        say(f"  {count:,} rejected: {reason}")
    if result.built:
        for reason, count in result.again.most_common():
            say(f"  {count:,} asked for again: {reason}")
        say(f"  in this run: {result.built:,} sentences, {result.pace.tokens:,} tokens in {result.pace.seconds:,.0f} s")


def _show(out: Path, count: int) -> None:
    from nearer.construct.queries import read_answers

    kept, rejected = read_answers(out)
    for record in kept[:count]:
        scores = f"   {record['scores']}" if "scores" in record else ""
        say(f"  {record['anchor']}\n    + {record['positive']}\n    − {record['hard_negative']}{scores}")
    for reason, record in rejected[:count]:
        say(f"  rejected, {reason}: {record['anchor']}\n    answer: {record['answer']!r}")


def _compare(result: TripletsResult, nli: Any, model: str, pooling: str | None, device: str | None, seed: int) -> None:
    """The table of shared words and cosines, as DebCSE's Table 4."""
    from nearer.construct import sample_table
    from nearer.teachers import VectorStore
    from nearer.teachers.teacher import teacher_precision
    from nearer.text import read_triplets

    encoder = load_encoder(model, pooling, device)
    store = VectorStore(encoder, precision=teacher_precision(encoder.device))
    generated = sample_table.supervised_samples(read_triplets(result.data), store, seed)
    shown = [replace(generated, name="generated")]
    if nli is not None:
        shown.append(sample_table.supervised_samples(nli, store, seed))
        show_report(nli.report)
    show_table(sample_table.samples_table(shown))
    say(f"cosines: by {model}, {encoder.settings.pooling} pooling")
