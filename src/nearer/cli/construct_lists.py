"""Commands on ranking lists: construct lists (a language model writes them), inspect (an encoder judges them)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearer.cli import options
from nearer.cli.bundles import TEXT_READING, TextReading, with_bundles
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
from nearer.errors import InputError, SettingError

if TYPE_CHECKING:
    from nearer.construct.lists import ListsResult, Workforce
    from nearer.construct.requests import Engine
    from nearer.construct.start_sentences import ClusteredStarts, GivenStarts
    from nearer.encoder import Encoder


TOKENS_PER_SENTENCE = 100  # as the released code
TOKENS_PER_LISTED_SENTENCE = 40  # of a whole list in one answer: a long sentence is made up for by short ones
GUIDANCE = 0.5  # λ; the released call passes 1.5 as guidance scale, which is 1 + λ
DEFAULT_MODEL = "wiki-mini"
CLUSTERS, PER_CLUSTER = 1000, 20


class MethodName(StrEnum):
    directional = "directional"
    step_by_step = "step-by-step"
    single_step = "single-step"


class RulesName(StrEnum):
    paper = "paper"
    released = "released"


@with_bundles
def lists(
    llm: Annotated[str, typer.Option(help=LLM_HELP)],
    out: Annotated[Path, typer.Option(help="Folder of the data set. The same command continues an interrupted one.")],
    corpus: Annotated[str | None, typer.Option(help="Text from which k-means chooses the first sentences.")] = None,
    starts: Annotated[str | None, typer.Option(help="A file of first sentences, instead of --corpus.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="How many sentences to write after each first one.")] = 32,
    method: Annotated[
        MethodName,
        typer.Option(
            help="directional: away from the sentence before the last; step-by-step: one after the other; "
            "single-step: a whole list at once."
        ),
    ] = MethodName.directional,
    guidance: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            min=0,
            help=f"directional: λ of Eq. 4, how strongly it moves away. Default: {GUIDANCE}, the paper's strength.",
        ),
    ] = None,
    guidance_scale: Annotated[
        float | None,
        typer.Option(
            callback=options.finite, min=1, help="The same as other engines count it: 1 + λ. Default: 1.5, the paper's."
        ),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(help="Instruction of your own: a text file with {sentence} in it.")
    ] = None,
    minimum_steps: Annotated[
        int | None,
        typer.Option(min=1, help="Keep a list up to the first broken rule if so many were generated. Default: all."),
    ] = None,
    rules: Annotated[
        RulesName,
        typer.Option(
            help="paper: no sentence three times in a list; released: only its last two sentences are looked at."
        ),
    ] = RulesName.paper,
    first_line: Annotated[
        bool, typer.Option("--first-line", help="Take an answer's first line; else several lines reject a list.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Write only the first so many lists. A later run without this option continues."),
    ] = None,
    clusters: Annotated[int | None, typer.Option(min=1, help=f"Clusters of the corpus. Default: {CLUSTERS}.")] = None,
    per_cluster: Annotated[
        int | None, typer.Option(min=1, help=f"Start sentences of each. Default: {PER_CLUSTER}.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help=f"Encoder whose vectors are clustered. Default: {DEFAULT_MODEL}.")
    ] = None,
    pooling: options.Pooling = None,
    engine: Annotated[
        options.EngineName, typer.Option(help="Work in this process, or in workers of Ray Data.")
    ] = options.EngineName.process,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine ray: number of workers. Default: 2.")
    ] = None,
    kind: Kind = KindName.auto,
    batch: Annotated[int | None, typer.Option(min=1, help=BATCH_HELP.format("lists"))] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Most tokens of an answer. Default: {TOKENS_PER_SENTENCE}, or {TOKENS_PER_LISTED_SENTENCE} a step "
            "for a whole list.",
        ),
    ] = None,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of clusters, first sentences and drawn tokens.")
    ] = 0,
    device: options.Device = None,
    precision: Precision = None,
    format: Annotated[options.FormatName, typer.Option(help="File format of the data set.")] = options.FormatName.jsonl,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Let a language model write lists of sentences that move away from a first one, step by step.

    OUT/data.jsonl has a list a line, OUT/about.json how it was made and what was rejected, and why.
    """
    from nearer.construct.construction import check_folder
    from nearer.construct.engines import is_server, load_engine
    from nearer.construct.list_growth import ListSettings
    from nearer.construct.lists import construct_lists
    from nearer.construct.requests import load_template
    from nearer.versions import library_versions

    # what can be wrong without a model first: loading and encoding take time
    guidance = _strength(guidance, guidance_scale, method)
    if is_server(llm) and guidance:
        raise SettingError(
            "--llm: directional decoding needs the scores of all tokens, which a chat server does not give; name a "
            "model folder or GGUF file, or take --method step-by-step or single-step."
        )
    options.check_workers(engine, workers)
    settings = ListSettings(
        method=method.value,
        template=load_template(method.value, steps, template),
        steps=steps,
        minimum_steps=steps if minimum_steps is None else minimum_steps,
        guidance=guidance,
        rules=rules.value,
        first_line=first_line,
    )
    reading_options = text_reading.arguments()
    source = _source(corpus, starts, reading_options, model, pooling, clusters, per_cluster, seed, device)
    check_folder(out)
    batch = choose_batch(batch, llm, device)
    if max_new_tokens is None:
        each = TOKENS_PER_LISTED_SENTENCE * steps
        max_new_tokens = each if method is MethodName.single_step else TOKENS_PER_SENTENCE
    make_engine = partial(
        load_engine,
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
    with _workforce(engine, make_engine, workers, batch, device) as workforce:
        result = construct_lists(
            source,
            workforce,
            settings,
            out,
            seed=seed,
            limit=limit,
            format=format.value,
            notes={
                "llm": llm,
                "text": corpus or starts,
                "encoder": None if corpus is None else model or DEFAULT_MODEL,
                "batch": batch,
                "versions": library_versions(),
            },
            progress=True,
        )
    if source.reading.report.read:
        show_report(source.reading.report)
    _tell(result, steps)
    tell_troubles(getattr(workforce, "engine", None))


def _strength(guidance: float | None, scale: float | None, method: MethodName) -> float:
    """λ, by either of its names."""
    if guidance is not None and scale is not None:
        raise SettingError("--guidance (λ) and --guidance-scale (1 + λ) are two names of one strength; give one.")
    if scale is not None:
        return round(scale - 1, 12)  # 1.1 − 1 is 0.1, not 0.10000000000000009
    if guidance is not None:
        return guidance
    return GUIDANCE if method is MethodName.directional else 0.0


def load_encoder(model: str, pooling: str | None, device: str | None, max_length: int | None = None) -> Encoder:
    """The encoder that lists are begun with, or judged by."""
    from nearer.encoder import Encoder

    if pooling is None and model == DEFAULT_MODEL:
        pooling = "mean"  # which it does best with untrained
    return Encoder.load(model, pooling=pooling, device=device, max_length=max_length)


def _source(
    corpus: str | None,
    starts: str | None,
    reading_options: dict[str, Any],
    model: str | None,
    pooling: str | None,
    clusters: int | None,
    per_cluster: int | None,
    seed: int,
    device: str | None,
) -> ClusteredStarts | GivenStarts:
    from nearer.construct.start_sentences import ClusteredStarts, GivenStarts
    from nearer.teachers import VectorStore
    from nearer.teachers.teacher import teacher_precision
    from nearer.text import read_sentences

    if (corpus is None) == (starts is None):
        raise SettingError("--corpus FILE (start sentences by k-means) or --starts FILE (as they are): one is needed.")
    if corpus is None:
        for option, value in (("clusters", clusters), ("per-cluster", per_cluster), ("model", model)):
            if value is not None:
                raise SettingError(
                    f"--{option}: chooses among the sentences of a --corpus; those of --starts are all taken."
                )
        given = GivenStarts(read_sentences(str(starts), **reading_options))
        given.identity()  # a wrong path should not cost the loading of a model
        return given
    reading = read_sentences(corpus, **reading_options)
    reading.fingerprint()
    encoder = load_encoder(model or DEFAULT_MODEL, pooling, device)
    store = VectorStore(encoder, precision=teacher_precision(encoder.device))
    return ClusteredStarts(reading, store, clusters or CLUSTERS, per_cluster or PER_CLUSTER, seed)


def _workforce(
    engine: options.EngineName, make_engine: Callable[[], Engine], workers: int | None, batch: int, device: str | None
) -> Workforce:
    from nearer.construct.lists import InProcess

    if engine is options.EngineName.process:
        return InProcess(make_engine)
    from nearer.construct.lists import OverRay

    gpus = 0.0 if device is not None and device.startswith("cpu") else None
    return OverRay(make_engine, workers=2 if workers is None else workers, batch=batch, gpus=gpus)


def _tell(result: ListsResult, steps: int) -> None:
    say(f"{result.data}: {result.lists:,} lists, {result.sentences:,} sentences")
    if result.cut:
        say(f"  {result.cut:,} of them shorter than {steps + 1} sentences, cut where they broke a rule")
    for reason, count in result.rejected.most_common():
        say(f"  {count:,} rejected: {reason}")
    if result.short:
        say(f"  {result.short:,} clusters have fewer sentences than were asked for; all of theirs were taken")
    begun = result.lists + result.rejected.total()
    if begun < result.starts:
        say(f"  {result.starts - begun:,} of {result.starts:,} start sentences are left; without --limit it goes on")
    if result.built:
        say(f"  in this run: {result.built:,} lists, {result.pace}")


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
