"""A set-up: all that a search needs to know besides the encoder. It stands in the encoder's `nearer.json` as `search`.

    "search": {"lexical_weight": 1.0, "candidates": 100, "query_prompt": null, "passage_prompt": null,
               "reranker": {"model": "reranker/", "weight": 1.0, "candidates": 100}}

`search build`, `search query`, `rank` and `serve` take such a folder as it is; sentence-transformers reads its encoder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nearer.errors import ModelError, SettingError
from nearer.model_notes import NOTES_FILE, NOTES_FORMAT
from nearer.search.fusion import LEXICAL, RERANKER, VECTORS
from nearer.storage.checksums import CHECKSUMS, checksums_text, file_sum, read_checksums
from nearer.storage.whole import write_whole
from nearer.typed_files import as_typed, parsed_file

KEY = "search"
LARGEST_WEIGHT = 100
MOST_CANDIDATES = 10_000
MEND = "mend the value, or remove `search` from it to use the encoder alone"


class _Setting(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RerankerSetup(_Setting):
    """A cross-encoder that has a second look at the best candidates."""

    model: str = Field(min_length=1, description="its folder or hub name; a relative one lies in the encoder's folder")
    weight: float = Field(default=1.0, gt=0, le=LARGEST_WEIGHT, description="how much it counts beside the vectors' 1")
    candidates: int = Field(default=100, ge=1, le=MOST_CANDIDATES, description="how many of the best it reads")

    @field_validator("model")
    @classmethod
    def _inside(cls, model: str) -> str:
        if ".." in Path(model).parts:
            raise ValueError(f"{model!r} leads out of the model's folder")
        return model


class SearchSetup(_Setting):
    """How queries are answered: the vectors count 1, and what else counts stands here.

    Attributes:
        lexical_weight: How much BM25 counts; 0: not at all.
        reranker: A cross-encoder for the best candidates, or none.
        query_prompt: The name of the encoder's prompt for queries.
        passage_prompt: The name of the encoder's prompt for passages.
        candidates: How many are taken from the vectors, and as many from BM25.

    Examples:
        >>> import nearer
        >>> nearer.SearchSetup(lexical_weight=0.5).describe()
        'vectors + 0.5 × BM25'
    """

    lexical_weight: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    reranker: RerankerSetup | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None
    candidates: int = Field(default=100, ge=1, le=MOST_CANDIDATES)

    @property
    def weights(self) -> dict[str, float]:
        """By judge, as `fuse` takes them."""
        reranker = {} if self.reranker is None else {RERANKER: self.reranker.weight}
        return {VECTORS: 1.0, LEXICAL: self.lexical_weight, **reranker}

    @property
    def is_plain(self) -> bool:
        """Whether the vectors alone decide."""
        return not self.lexical_weight and self.reranker is None

    def changed(
        self,
        *,
        lexical_weight: float | None = None,
        reranker: str | Path | bool | None = None,
        rerank_weight: float | None = None,
        candidates: int | None = None,
    ) -> SearchSetup:
        """With other values where they are given. reranker: another one, or False for none."""
        facts = self.model_dump()
        if lexical_weight is not None:
            facts["lexical_weight"] = lexical_weight
        if candidates is not None:
            facts["candidates"] = candidates
        if reranker is False:
            facts["reranker"] = None
        elif reranker is not None:
            facts["reranker"] = {**(facts["reranker"] or {}), "model": str(reranker)}
        if facts["reranker"] is None:
            if rerank_weight is not None:
                raise SettingError("rerank_weight: there is no reranker; name one.", argument="rerank")
        else:
            changes = {"weight": rerank_weight, "candidates": candidates}
            facts["reranker"] |= {name: value for name, value in changes.items() if value is not None}
        return as_typed(SearchSetup, facts, "search set-up", error=SettingError)

    def describe(self) -> str:
        """In a few words, for people."""
        parts = ["vectors"]
        if self.lexical_weight:
            parts.append(f"{self.lexical_weight:g} × BM25")
        if self.reranker is not None:
            parts.append(f"{self.reranker.weight:g} × {self.reranker.model} on the best {self.reranker.candidates}")
        return " + ".join(parts)


def read_setup(folder: Path) -> SearchSetup | None:
    """The set-up in a model's folder; None where it has none. A reranker that lies there has its whole path."""
    path = folder / NOTES_FILE
    if not path.is_file():
        return None
    notes = parsed_file(path, error=ModelError)
    if not isinstance(notes, dict) or notes.get(KEY) is None:
        return None
    setup = as_typed(SearchSetup, notes[KEY], f"{path}: {KEY}", error=ModelError, mend=MEND)
    if setup.reranker is None:
        return setup
    inside = folder / setup.reranker.model
    if setup.reranker.model.endswith("/") and not inside.is_dir():
        raise ModelError(f"{path}: {KEY}.reranker.model: {inside} is not there; get the whole folder again, or {MEND}.")
    if not Path(setup.reranker.model).is_absolute() and inside.is_dir():
        found = setup.reranker.model_copy(update={"model": str(inside.resolve())})
        return setup.model_copy(update={"reranker": found})
    return setup


def find_setup(model: object) -> SearchSetup:
    """Of a model that is given by its folder or name; a plain one for a model that is loaded, or has none."""
    if not isinstance(model, (str, Path)):
        return SearchSetup()
    from nearer.encoder.sources import find_folder

    return read_setup(find_folder(model)) or SearchSetup()


def write_setup(folder: Path, setup: SearchSetup) -> None:
    """Add a set-up to a model's folder, or replace the one that is there.

    A power cut leaves the old one or the new one: the file has no checksum while it is replaced.
    """
    path = folder / NOTES_FILE
    notes: dict[str, Any] = {"format": NOTES_FORMAT}
    if path.is_file():
        notes = as_typed(dict[str, Any], parsed_file(path, error=ModelError), str(path), error=ModelError)
    notes[KEY] = setup.model_dump()
    try:
        sums = read_checksums(folder)
        if sums is not None:
            rest = {name: one for name, one in sums.items() if name != NOTES_FILE}
            write_whole(folder / CHECKSUMS, checksums_text(rest))
        write_whole(path, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        if sums is not None:
            write_whole(folder / CHECKSUMS, checksums_text({**rest, NOTES_FILE: file_sum(path)}))
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror or error}).") from error
