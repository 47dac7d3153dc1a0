"""Commands about where rankings come from: embed (a teacher's vectors of a corpus), rank-encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import LOADING, TEXT_READING, Loading, TextReading, check_new_model, with_bundles
from nearer.cli.output import say, show_report
from nearer.errors import SettingError

if TYPE_CHECKING:
    from nearer.teachers.teacher import Teacher, TeacherSettings


def embed(
    model: options.Model,
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="The text that will be trained on.")],
    pooling: options.Pooling = None,
    max_length: options.MaxLength = None,
    text_normalisation: options.Normalisation = None,
    template: options.Template = None,
    pooler_as_head: options.PoolerAsHead = False,
    columns: options.Columns = None,
    allow_pickle: options.AllowPickle = False,
    device: options.Device = None,
    engine: Annotated[
        options.EngineName,
        typer.Option(help="Work in this process, or with Ray Data on several machines (docs/large-corpora.md)."),
    ] = options.EngineName.process,
    workers: options.Workers = None,
) -> None:
    """Let a teacher encode a corpus before training. Sentences that it has encoded before are not encoded again.

    `nearer train … --teacher MODEL` does the same where it was not done; an interrupted one goes on where it was. A CPU
    computes in float32 and a GPU in bf16, which are kept apart: embed where you train.
    """
    from nearer.teachers.teacher import TeacherSettings
    from nearer.text import read_sentences

    options.check_workers(engine, workers)
    reading = read_sentences(corpus, columns=options.column_names(columns))
    reading.fingerprint()  # a wrong path should not cost the loading of a model
    settings = TeacherSettings(
        model=model,
        pooling=pooling,
        template=template,
        max_length=max_length,
        text_normalisation=text_normalisation,
        pooler_as_head=pooler_as_head,
        allow_pickle=allow_pickle,
    )
    with _teacher(settings, device, engine, workers) as teacher:
        before = len(teacher.store.vectors())
        try:
            teacher.learn(reading, progress=True)
        except KeyboardInterrupt:
            kept = len(teacher.store.vectors()) - before
            raise KeyboardInterrupt(f"stopped; {kept:,} new vectors are kept; the same command goes on there") from None
    if reading.report.read:
        show_report(reading.report)
    new = len(teacher.vectors) - before
    say(f"{len(teacher.rows):,} sentences, {new:,} encoded now; vectors of {model}: {teacher.store.folder}")


@contextmanager
def _teacher(
    settings: TeacherSettings, device: str | None, engine: options.EngineName, workers: int | None
) -> Iterator[Teacher]:
    """A teacher that encodes in this process or by workers of Ray, which are there as long as it is."""
    from nearer.encoder.encoder import chosen_device
    from nearer.teachers.teacher import Teacher

    if engine is options.EngineName.process:
        yield Teacher(settings, chosen_device(device))
        return
    from nearer.teachers.ray_vectors import OverRay, check_ray

    if device not in (None, "cpu", "cuda"):
        raise SettingError(
            f"--device: {device!r} with --engine ray; name cpu or cuda, each worker has a GPU of its own."
        )
    check_ray()  # what is not installed should not cost the loading of a model either
    here = chosen_device("cpu")
    gpus = None if device is None else float(device == "cuda")
    with OverRay(settings.load(here), workers=workers, gpus=gpus) as workforce:
        yield Teacher(settings, here, workforce)


@with_bundles
def rank_encoder(
    model: options.Model,
    corpus: Annotated[str, typer.Option(help="Text to rank. It should resemble the sentences that you will compare.")],
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    size: Annotated[
        int, typer.Option(min=2, help="How many different sentences of the corpus to use; the seed chooses them.")
    ] = 10_000,
    inference_weight: Annotated[
        float,
        typer.Option(
            callback=options.finite,
            min=0,
            max=1,
            help="λ_inf: 1 uses rank vectors alone, a lower value mixes in cosines.",
        ),
    ] = 1.0,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Estimate from the corpus' covariance: much faster.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed: decides which sentences are used.")
    ] = 0,
    loading: Loading = LOADING,
    text_reading: TextReading = TEXT_READING,
) -> None:
    """Make a RankEncoder of a model without training: it compares sentences by how alike they rank a corpus."""
    from nearer.encoder import Encoder
    from nearer.teachers import RankEncoder
    from nearer.teachers.rank_vectors import sample_sentences
    from nearer.text import read_sentences

    check_new_model(out)
    reading = read_sentences(corpus, **text_reading.arguments())
    sentences = sample_sentences(reading, size, seed)
    show_report(reading.report)
    reading.report.check_kept(told=True)
    if len(sentences) < size:
        say(f"the corpus has {len(sentences):,} different sentences; all of them are ranked")
    encoder = Encoder.load(
        model,
        **loading.arguments(),
    )
    made = RankEncoder.build(
        encoder, sentences, inference_weight=inference_weight, approximate=approximate, progress=True
    )
    made.save(out)
    say(f"{out}: {made.scoring}")
