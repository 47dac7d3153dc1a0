"""The command threshold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import LOADING, Loading, sample_corpus, with_bundles
from nearer.cli.output import put, say, show_report, show_table
from nearer.errors import InputError, SettingError

if TYPE_CHECKING:
    from nearer.analysis.threshold import CorpusThreshold, Interval, PairThreshold

MOST_SENTENCES = 5_000  # as `nearer.analysis.threshold` has it, which costs an import


@with_bundles
def threshold(
    model: options.Model,
    file: Annotated[
        str | None,
        typer.Argument(metavar="PAIRS", help="Labelled pairs: two texts and 1 (the same) or 0. tsv, csv, jsonl …"),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="FILE", help="Sentences without labels, in place of PAIRS.")
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            callback=options.finite, min=0.01, max=1, help="The precision to reach. Default: the cut with the best F1."
        ),
    ] = None,
    same_from: Annotated[
        float | None,
        typer.Option(
            callback=options.finite, help="Graded labels: pairs with this label or a higher one are the same."
        ),
    ] = None,
    false_positives: Annotated[
        float,
        typer.Option(
            callback=options.finite, min=1e-5, max=0.5, help="--corpus: share of random pairs that may reach the cut."
        ),
    ] = 0.001,
    resamples: Annotated[int, typer.Option(min=100, help="How many times the bootstrap draws the pairs anew.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of the draws.")] = 0,
    json_out: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    loading: Loading = LOADING,
) -> None:
    """Say from which similarity on two texts count as duplicates: by labelled pairs, or by a text without labels."""
    from nearer.analysis.threshold import threshold_of_corpus, threshold_of_pairs
    from nearer.baselines import load_scorer

    if (file is None) == (corpus is None):
        raise SettingError("give either labelled PAIRS or --corpus FILE.")
    if corpus is not None:
        if precision is not None or same_from is not None:
            raise SettingError("--precision, --same-from: are about labelled pairs; give PAIRS.")
        sentences = sample_corpus(corpus, MOST_SENTENCES, seed)
        scorer = load_scorer(model, **loading.arguments())
        found = threshold_of_corpus(
            scorer, sentences, false_positives=false_positives, seed=seed, progress=not json_out
        )
        if json_out:
            put(json.dumps(found.to_dict(), indent=2))
        else:
            _show_corpus(found)
        return
    firsts, seconds, labels = _read_labels(str(file), same_from)
    scorer = load_scorer(model, **loading.arguments())
    vectors = scorer.encode([*firsts, *seconds], batch_size=None, progress=not json_out)
    scores = scorer.pair_scores(vectors[: len(firsts)], vectors[len(firsts) :])
    cut = threshold_of_pairs(scores, labels, precision=precision, resamples=resamples, seed=seed)
    if json_out:
        put(json.dumps(cut.to_dict(), indent=2))
    else:
        _show_pairs(cut)


def _read_labels(file: str, same_from: float | None) -> tuple[list[str], list[str], list[bool]]:
    from nearer.text import read_pairs

    reading = read_pairs(file)
    pairs = list(reading.located())
    show_report(reading.report)
    reading.report.check_kept(told=True)
    labels = []
    for line, pair in pairs:
        if pair.score is None:
            raise InputError(f"{file}: line {line} has no label; a pair needs two texts and 1 (the same) or 0.")
        if same_from is None and pair.score not in (0, 1):
            raise InputError(
                f"{file}: line {line} has the label {pair.score:g}, 0 or 1 is needed; or say from which label on pairs "
                "are the same.",
                argument="same_from",
            )
        labels.append(pair.score >= (1 if same_from is None else same_from))
    return [pair.first for _, pair in pairs], [pair.second for _, pair in pairs], labels


def _show_pairs(found: PairThreshold) -> None:
    aim = "best F1" if found.wanted is None else f"precision of {found.wanted:g} or more"
    put(f"cut at {found.cut.value:.4f}")
    say(f"{aim}, on {found.pairs:,} pairs of which {found.same:,} are the same:")
    share = f"{100 * found.confidence:g} %"
    for name in ("cut", "precision", "recall", "f1"):
        interval: Interval = getattr(found, name)
        say(f"  {name:<9} {interval.value:.3f}   {share} of resamples: {interval.low:.3f} to {interval.high:.3f}")


def _show_corpus(found: CorpusThreshold) -> None:
    from rich.table import Table

    put(f"cut at {found.chosen.cut:.4f}")
    say(
        f"{100 * found.chosen.false_positives:.3g} % of {found.random_pairs:,} random pairs reach it, and "
        f"{100 * found.chosen.with_neighbour:.1f} % of {found.sentences:,} sentences have another there"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("cut", "random pairs at or above", "sentences with a neighbour there"):
        table.add_column(column, justify="right")
    for level in found.levels:
        table.add_row(f"{level.cut:.2f}", f"{100 * level.false_positives:.3f} %", f"{100 * level.with_neighbour:.1f} %")
    show_table(table)
