"""Vectors of sentences that never change, computed once: a model's own folder in the cache, found by its fingerprint.

    vectors.bin   unit vectors, float16, one row after the other
    keys.bin      a digest of each row's sentence (16 bytes)
    model.json    what the model is, for people
    rows/         for a corpus by its fingerprint: the row of each of its sentences

Rows are only ever added, vectors before their keys, so what was written before an interruption stays good. A changed
sentence has another digest and a changed model another folder: neither is ever taken for what it was. One process
writes at a time; the system ends its lock if it dies.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.encoder.encoding import WINDOW_ON_GPU, BulkEncoding, at_inference
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.precision import check_precision
from nearer.errors import InputError
from nearer.progress import Advance, progress_bar
from nearer.teachers.missing import KEY_BYTES, Keys, MissingSentences, changed, sentence_keys
from nearer.text.cache import cache_folder
from nearer.text.chunks import chunks
from nearer.text.reading import Reading
from nearer.text.shapes import SENTENCES

Rows = NDArray[np.int64]
# Sentences between two writes on a CPU: an interruption costs two such windows, and a large model does some dozens of
# sentences a second
WINDOW_ON_CPU = 2048


class Workforce(Protocol):
    """Other processes that hold copies of an encoder and compute in place of this one."""

    @property
    def encoder(self) -> Encoder: ...
    @property
    def device(self) -> torch.device:
        """What they compute on."""

    def windows(
        self, missing: MissingSentences, size: int, options: dict[str, Any], advance: Advance
    ) -> Generator[NDArray[np.floating[Any]]]:
        """The vectors of the missing sentences, `size` after `size`, in order. options: of `BulkEncoding`."""


class VectorStore:
    """The vectors of one model (at one precision)."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        precision: str = "float32",
        folder: str | Path | None = None,
        workforce: Workforce | None = None,
    ) -> None:
        """folder: where the stores of all models are kept. workforce: who encodes; None for this process."""
        self.workforce = workforce
        self.device = encoder.device if workforce is None else workforce.device
        check_precision(precision, self.device)
        self.encoder = encoder
        self.precision = precision
        self.dimension = encoder.dimension
        self.fingerprint = f"{encoder_fingerprint(encoder)}-{precision}"
        root = cache_folder("vectors") if folder is None else Path(folder)
        self.folder = root / self.fingerprint
        self._row_bytes = 2 * self.dimension

    def rows(self, reading: Reading[str], *, progress: bool = False) -> Rows:
        """The row of each sentence of a corpus, in its order; vectors that are not there yet are computed."""
        if reading.shape != SENTENCES:
            raise InputError(f"{reading.source}: is read as {reading.shape.plural}, a teacher knows sentences alone.")
        fingerprint = reading.fingerprint()
        known = self.folder / "rows" / f"{fingerprint}.npy"
        if (found := self._known_rows(known)) is not None:
            return found
        try:
            known.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / "lock"):
                rows = self._completed(reading, progress)
                if reading.fingerprint() != fingerprint:
                    raise changed(reading)
                partial = known.with_name(f".{uuid.uuid4().hex}.npy")
                np.save(partial, rows)
                partial.replace(known)
        except OSError as error:
            raise InputError(f"{self.folder}: vectors cannot be kept there ({error.strerror or error}).") from error
        return rows

    def vectors(self) -> NDArray[np.float16]:
        """All vectors (rows, dimension), mapped: only what is looked at is read."""
        count = self._count()
        if not count:
            return np.zeros((0, self.dimension), dtype=np.float16)
        path = self.folder / "vectors.bin"
        # as a plain array: each slice of a memmap costs more than what it holds
        return np.asarray(np.memmap(path, dtype=np.float16, mode="r", shape=(count, self.dimension)))

    def _known_rows(self, path: Path) -> Rows | None:
        try:
            rows: Rows = np.load(path)
        except Exception:  # not there, or damaged, of which numpy complains in many ways
            return None
        if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1 or not len(rows):
            return None
        return rows if int(rows.min()) >= 0 and int(rows.max()) < self._count() else None

    def _count(self) -> int:
        """Rows that are whole: with a vector and a key."""
        return min(_size(self.folder / "vectors.bin") // self._row_bytes, _size(self.folder / "keys.bin") // KEY_BYTES)

    def _completed(self, reading: Reading[str], progress: bool) -> Rows:
        """Rows of all sentences, with the missing ones computed."""
        self._cut_off_what_is_not_whole()
        self._forget_what_is_lost()
        keys = sentence_keys(reading)
        reading.report.check_kept()
        missing = _first_occurrences(keys, self._find(keys) < 0)
        if missing.any():
            self._write_description()
            self._add(MissingSentences(reading, keys, missing), progress)
        rows = self._find(keys)
        if (rows < 0).any():
            raise changed(reading)
        return rows

    def _cut_off_what_is_not_whole(self) -> None:
        count = self._count()
        for name, size in (("vectors.bin", self._row_bytes), ("keys.bin", KEY_BYTES)):
            if _size(self.folder / name) > count * size:
                os.truncate(self.folder / name, count * size)

    def _forget_what_is_lost(self) -> None:
        """Of rows that were lost with the end of a damaged file: they would soon be other sentences' rows."""
        for path in (self.folder / "rows").glob("*.npy"):
            if path.name.startswith(".") or self._known_rows(path) is None:
                path.unlink()

    def _add(self, missing: MissingSentences, progress: bool) -> None:
        name, wanted = self.encoder.name, missing.wanted
        written = 0
        with (
            open(self.folder / "vectors.bin", "ab") as vectors,
            open(self.folder / "keys.bin", "ab") as key_file,
            progress_bar(f"vectors of {name}", len(wanted), "sentences", shown=progress) as advance,
            at_inference(self.encoder),
            closing(self._windows(missing, advance)) as coming,
        ):
            for found in coming:
                if not np.isfinite(found).all():
                    raise InputError(f"{name}: gives vectors that are not finite numbers; it cannot teach.")
                vectors.write(found.astype(np.float16).data)
                vectors.flush()
                os.fsync(vectors.fileno())  # a key must not outlive a power cut that its vector does not
                key_file.write(np.ascontiguousarray(wanted[written : written + len(found)]).data)
                key_file.flush()
                written += len(found)
            os.fsync(key_file.fileno())

    def _windows(self, missing: MissingSentences, advance: Advance) -> Generator[NDArray[np.floating[Any]]]:
        """The same windows whoever encodes: they decide the batches, and batches the last bit of a vector."""
        bulk = BulkEncoding(
            self.encoder, normalize=True, precision=self.precision, prompt=self.encoder.settings.prompt(None)
        )
        size = WINDOW_ON_GPU if self.device.type == "cuda" else WINDOW_ON_CPU
        if self.workforce is None:
            return bulk.windows(chunks(missing, size), advance)
        return self.workforce.windows(missing, size, bulk.options, advance)

    def _find(self, keys: Keys) -> Rows:
        """The row of each key, −1 where there is none."""
        count = self._count()
        rows = np.full(len(keys), -1, dtype=np.int64)
        if not count:
            return rows
        known: Keys = np.fromfile(self.folder / "keys.bin", dtype=np.uint64, count=2 * count).reshape(-1, 2)
        order = np.argsort(known[:, 0])
        first, second = known[order, 0], known[order, 1]
        place = np.searchsorted(first, keys[:, 0])
        open_ones = np.arange(len(keys))
        while len(open_ones):  # again only for keys that share their first half with another
            open_ones = open_ones[place[open_ones] < count]
            open_ones = open_ones[first[place[open_ones]] == keys[open_ones, 0]]
            hit = second[place[open_ones]] == keys[open_ones, 1]
            rows[open_ones[hit]] = order[place[open_ones[hit]]]
            open_ones = open_ones[~hit]
            place[open_ones] += 1
        return rows

    def _write_description(self) -> None:
        encoder = self.encoder
        facts: dict[str, Any] = {
            "model": encoder.name,
            "pooling": encoder.settings.pooling,
            "max_length": encoder.settings.max_length,
            "precision": self.precision,
            "dimension": self.dimension,
        }
        (self.folder / "model.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _first_occurrences(keys: Keys, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Marks one sentence of each kind, of those that are marked."""
    places = np.flatnonzero(among)
    order = np.lexsort((keys[places, 1], keys[places, 0]))
    ordered = keys[places[order]]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    chosen = np.zeros(len(keys), dtype=bool)
    chosen[places[order[new]]] = True
    return chosen


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
