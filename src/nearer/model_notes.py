"""`nearer.json`: what a model's folder says beyond the layout of sentence-transformers, and how the model was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from nearer.errors import ModelError
from nearer.typed_files import FileFacts, read_json

NOTES_FILE = "nearer.json"
NOTES_FORMAT = 1


class HeldOut(FileFacts):
    model_config = ConfigDict(extra="allow")

    records: int
    asks: str


class Provenance(FileFacts):
    """What is read again of how a model was made; runs and methods note more."""

    model_config = ConfigDict(extra="allow")

    recipe: str | None = None
    settings: dict[str, Any] | None = None
    corpus: str | None = None
    records: int | None = None
    dropped: int | None = None
    tokens: str | None = None
    best_step: int | None = None
    dev_score: float | None = None
    seconds: float | None = None
    held_out: HeldOut | None = None


class TemplateNotes(FileFacts):
    """Text around each sentence, and its tokens; see `nearer.encoder.template`."""

    text: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    special: tuple[int, int] = (0, 0)
    mask: int | None = None


class ModelNotes(FileFacts):
    format: int
    pooling: str | None = None
    head: bool = False
    text_normalisation: str | None = None
    template: TemplateNotes | None = None
    provenance: Provenance = Provenance()


def read_notes(folder: Path) -> ModelNotes | None:
    """None for a model that nearer has not written."""
    path = folder / NOTES_FILE
    if not path.exists():
        return None
    mend = "write the model anew, or remove the file"
    return read_json(path, ModelNotes, format=NOTES_FORMAT, error=ModelError, mend=mend)
