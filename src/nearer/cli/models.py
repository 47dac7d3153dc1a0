"""Commands that use a model: evaluate, encode, similarity, rank."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import completion, options
from nearer.cli.bundles import LOADING, TEXT_READING, Loading, TextReading, check_json_file, with_bundles
from nearer.cli.output import one_line, put, put_data, say, show_report, show_table
from nearer.errors import SettingError


class Aggregation(StrEnum):
    all = "all"
    mean = "mean"
    wmean = "wmean"


class Reading(StrEnum):
    v1 = "mteb-v1"
    v2 = "mteb-v2"


class Correlation(StrEnum):
    spearman = "spearman"
    pearson = "pearson"


@with_bundles
def evaluate(
    model: options.Model,
    tasks: Annotated[
        str,
        typer.Option(
            help="Comma-separated: sts (the seven), sts12 … stsb-dev, sick-r, everyday (bundled), a FILE of scored "
            "pairs; transfer or transfer-fast (the seven), mr … mrpc, mr-fast …, transfer:FILE of labelled sentences; "
            "ranking, ranking:stsb, ranking:FILE; wikiqa, askubuntu, scidocs, stackoverflow, mindsmall, rerank:FILE; "
            "retrieval:FOLDER.",
            autocompletion=completion.tasks,
        ),
    ] = "sts",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the published data sets (SentEval's layout or raw; WikiQA's files).")
    ] = None,
    loading: Loading = LOADING,
    aggregation: Annotated[
        Aggregation,
        typer.Option(
            help="STS: how a year's subsets make one figure: all (joined), mean, or wmean (weighted by size)."
        ),
    ] = Aggregation.all,
    correlation: Annotated[
        Correlation, typer.Option(help="STS: which correlation with the gold scores to show.")
    ] = Correlation.spearman,
    reading: Annotated[
        Reading | None, typer.Option(help="Reranking: as MTEB did before version 2, or since. Default: mteb-v1.")
    ] = None,
    strict: options.Strict = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write scores and protocol to this file; '-' prints them.")
    ] = None,
    inference_weight: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            min=0,
            max=1,
            help="RankEncoder: how much rank similarity counts (λ_inf). Default: the model's own.",
        ),
    ] = None,
    precision: options.Precision = options.PrecisionName.float32,
    batch_size: options.BatchSize = None,
) -> None:
    """Score a model: STS, transfer, ranking, reranking and retrieval tasks, published or of your own."""
    from nearer.baselines import load_scorer
    from nearer.evaluation import evaluate as run
    from nearer.evaluation import load_tasks
    from nearer.teachers import RankEncoder

    # the paths first: a wrong one should not cost the loading of a model
    check_json_file(json_file)
    loaded = load_tasks(options.split_names(tasks), data, strict=strict)
    for task in loaded:
        if task.report:
            show_report(task.report)
    encoder = load_scorer(
        model,
        **loading.arguments(precision=precision.value),
    )
    if inference_weight is not None:
        if not isinstance(encoder, RankEncoder):
            raise SettingError(f"--inference-weight: {model} is not a RankEncoder (`nearer rank-encoder` makes one).")
        encoder.inference_weight = inference_weight
    results = run(
        encoder,
        loaded,
        aggregation=aggregation.value,
        correlation=correlation.value,
        reading=None if reading is None else reading.value,
        batch_size=batch_size,
        progress=True,
    )
    if json_file is not None and str(json_file) == "-":
        put(results.to_json())
        return
    show_table(results.table())
    if json_file is not None:
        results.write_json(json_file)
        say(f"scores and protocol: {json_file}")


@with_bundles
def encode(
    model: options.Model,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Sentences: txt, csv, tsv, jsonl, parquet, hf:NAME; or -.")
    ],
    out: Annotated[Path, typer.Option(help="File to write the vectors to (.npy).")],
    loading: Loading = LOADING,
    normalize: Annotated[
        bool | None, typer.Option(help="Scale vectors to length 1. Default: as the model says.")
    ] = None,
    text_reading: TextReading = TEXT_READING,
    precision: options.Precision = options.PrecisionName.float32,
    dtype: options.Dtype = options.DtypeName.float32,
    batch_tokens: options.BatchTokens = None,
    batch_size: options.BatchSize = None,
    devices: options.Devices = None,
    processes: options.Processes = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
) -> None:
    """Encode each sentence of a file. Writes a NumPy file with one row a sentence, and a description of it."""
    from nearer.encoder import Encoder
    from nearer.encoder.files import check_output, encode_file
    from nearer.text import read_sentences

    check_output(out, overwrite=force)
    workers = options.worker_devices(loading.device, devices, processes)
    reading = read_sentences(file, **text_reading.arguments())
    encoder = Encoder.load(
        model,
        **loading.arguments(device="cpu" if workers else loading.device),  # the workers load it for themselves
    )
    written = encode_file(
        encoder,
        reading,
        out,
        batch_tokens=batch_tokens,
        batch_size=batch_size,
        normalize=normalize,
        precision=precision.value,
        dtype=dtype.value,
        devices=workers,
        progress=True,
        overwrite=force,
    )
    show_report(written.report)
    say(f"{written.vectors}: {written.rows:,} × {written.dimension}, {dtype.value}")
    if written.lines:
        say(f"{written.lines}: the line of each row, since lines were dropped")


@with_bundles
def similarity(
    model: options.Model,
    first: Annotated[str, typer.Argument(metavar="A", help="A sentence.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another sentence.")],
    loading: Loading = LOADING,
) -> None:
    """Print how similar two sentences are: the cosine of their vectors, or a RankEncoder's score."""
    from nearer.baselines import load_scorer

    encoder = load_scorer(
        model,
        **loading.arguments(),
    )
    put(f"{encoder.similarity(first, second):.4f}")


@with_bundles
def rank(
    model: options.Model,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The sentence to compare with.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Candidates: txt, csv, tsv, jsonl, parquet, hf:NAME; or -.")
    ],
    top: Annotated[int | None, typer.Option(min=1, help="Show only so many. Default: all.")] = None,
    rerank: Annotated[
        str | None,
        typer.Option(metavar="CROSS", help="A cross-encoder that counts beside the model; 'none' for none."),
    ] = None,
    rerank_weight: Annotated[
        float | None,
        typer.Option(
            callback=options.finite, min=0.0001, max=100, help="How much the cross-encoder counts beside the model's 1."
        ),
    ] = None,
    lexical_weight: options.LexicalWeight = None,
    loading: Loading = LOADING,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Rank the sentences of a file: the nearest to the query first. Prints score, line and sentence.

    The score is the similarity. Where a cross-encoder or words count too, by options or by the model's set-up, it is
    the weighted sum of what each says, in standard deviations.
    """
    from nearer.baselines import load_scorer
    from nearer.search.hybrid import rank_texts
    from nearer.search.setup import find_setup
    from nearer.teachers import CrossEncoder
    from nearer.text import read_sentences

    reading = read_sentences(file, **text_reading.arguments())
    located = list(reading.located())
    show_report(reading.report)
    reading.report.check_kept(told=True)
    encoder = load_scorer(
        model,
        **loading.arguments(),
    )
    setup = find_setup(model).changed(
        lexical_weight=lexical_weight, reranker=False if rerank == "none" else rerank, rerank_weight=rerank_weight
    )
    judge = None if setup.reranker is None else CrossEncoder.load(setup.reranker.model, device=loading.device)
    for ranked in rank_texts(encoder, query, [sentence for _, sentence in located], setup, reranker=judge, top=top):
        put_data(f"{ranked.score:.4f}\t{located[ranked.number][0]}\t{one_line(ranked.sentence)}")
