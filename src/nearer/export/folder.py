"""A model as a folder of sentence-transformers with its card, ready to be handed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearer.errors import InputError
from nearer.export.card import Told, model_card
from nearer.export.source import Source, without_folders
from nearer.runs.score_file import ScoreFile, read_scores
from nearer.storage.whole import whole_folder

CARD = "README.md"
MEASURED_WITH = ("pooling", "max_length", "text_normalisation")


def export_folder(
    source: Source,
    out: str | Path,
    *,
    name: str | None = None,
    languages: Sequence[str] = (),
    licence: str | None = None,
    scores: str | Path | None = None,
) -> Path:
    """Write a model with a filled-in card; `SentenceTransformer(out)` and `nearer.load_model(out)` load it.

    name: what the card calls it, by default the folder's name. scores: a file of `nearer evaluate --json`, by default
    the run's own. Paths of this machine that the model notes are cut down to the names of files.
    """
    path = Path(out)
    told = Told(name or path.name, tuple(languages), licence)
    found = source.run.scores if scores is None and source.run is not None else None
    if scores is not None:
        found = read_scores(Path(scores))
        _check_scores(found, source, scores)
    card = model_card(source, told, found)
    encoder = source.encoder
    noted = encoder.provenance
    with whole_folder(path) as built:
        try:
            encoder.provenance = without_folders(noted)
            source.model.save(built)
        finally:
            encoder.provenance = noted
        (built / CARD).write_text(card, encoding="utf-8")
    return path


def _check_scores(scores: ScoreFile, source: Source, path: str | Path) -> None:
    """That they can be this model's: what was measured another way would stand on the card as its own."""
    for setting in MEASURED_WITH:
        measured, own = scores.protocol.get(setting), getattr(source.encoder.settings, setting)
        if measured is not None and measured != own:
            raise InputError(
                f"{path}: was measured with {setting} {measured}, the model has {own}; evaluate the model anew."
            )
