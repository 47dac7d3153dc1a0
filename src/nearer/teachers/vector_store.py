"""Vectors of sentences that never change, computed once: a model's own folder in the cache, found by its fingerprint.

    vectors.bin   unit vectors, float16, one row after the other
    keys.bin      a digest of each row's sentence (16 bytes)
    pieces.bin    checksums of both, by pieces; only rows that have one are there
    model.json    what the model is, for people
    rows/         for a corpus by its fingerprint: the row of each of its sentences, with a checksum

Rows are only ever added, with their checksums last, so what was written before an interruption stays good. A changed
sentence has another digest and a changed model another folder: neither is ever taken for what it was. One process
writes at a time; the system ends its lock if it dies.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.encoder.encoding import WINDOW_ON_GPU, BulkEncoding
from nearer.encoder.fingerprint import encoder_fingerprint
from nearer.encoder.network import at_inference
from nearer.encoder.precision import check_precision
from nearer.errors import DamagedError, InputError
from nearer.storage.cache import cache_folder
from nearer.storage.pieces import PIECES, Pieces, PieceWriter, rows_in_a_piece
from nearer.storage.sealed import sealed_bytes, unsealed_bytes, write_sealed_json
from nearer.storage.whole import make_folder, sync_folder, whole_file
from nearer.teachers.missing_sentences import KEY_BYTES, Keys, MissingSentences, sentence_keys
from nearer.terminal import Advance, progress_bar
from nearer.text.batches import chunks
from nearer.text.reading import Reading, changed
from nearer.text.shapes import SENTENCES

Rows = NDArray[np.int64]
VECTORS, KEYS = "vectors.bin", "keys.bin"
# Sentences between two writes on a CPU: an interruption costs two such windows, and a large model does some dozens of
# sentences a second
WINDOW_ON_CPU = 2048


class Workforce(Protocol):
    """Other processes that hold copies of an encoder and compute instead of this one."""

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

    def rows(self, reading: Reading[str], *, wanted: NDArray[np.bool_] | None = None, progress: bool = False) -> Rows:
        """The row of each sentence of a corpus, in its order; vectors that are not there yet are computed.

        wanted: only of these sentences; the others have −1 if they are not there.
        """
        if reading.shape != SENTENCES:
            raise InputError(f"{reading.source}: is read as {reading.shape.plural}, a teacher knows sentences alone.")
        fingerprint = reading.fingerprint()
        known = self.folder / "rows" / f"{fingerprint}.bin"
        if (found := self._known_rows(known)) is not None:
            return self._checked(found)
        with self._locked():
            rows = self._completed(reading, wanted, progress)
            if reading.fingerprint() != fingerprint:
                raise changed(reading)
            if (rows >= 0).all():
                with whole_file(known) as partial:
                    partial.write_bytes(sealed_bytes(rows.tobytes()))
        return self._checked(rows)

    def add_known(self, sentences: Iterable[str], vectors: NDArray[np.float16]) -> None:
        """Add the vectors of sentences (sentences, dimension) that this model computed elsewhere, at this precision.

        What is there already stays as it is.
        """
        keys = sentence_keys(sentences)
        with self._locked():
            self._tidy()
            new = _first_occurrences(keys, self._find(keys) < 0)
            if new.any():
                self._write_description()
                size = self._window
                numbers = np.flatnonzero(new)
                self._append(keys[new], (vectors[numbers[at : at + size]] for at in range(0, len(numbers), size)))

    def vectors(self) -> NDArray[np.float16]:
        """All vectors (rows, dimension), mapped: only what is looked at is read. Rows that `rows` gave are checked."""
        count = self._count()
        if not count:
            return np.zeros((0, self.dimension), dtype=np.float16)
        path = self.folder / VECTORS
        # as a plain array: each slice of a memmap costs more than what it holds
        return np.asarray(np.memmap(path, dtype=np.float16, mode="r", shape=(count, self.dimension)))

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Nobody else writes meanwhile."""
        try:
            make_folder(self.folder / "rows")
            with FileLock(self.folder / "lock"):
                yield
        except OSError as error:
            raise InputError(f"{self.folder}: vectors cannot be kept there ({error.strerror or error}).") from error

    def _known_rows(self, path: Path) -> Rows | None:
        try:
            rows: Rows = np.frombuffer(unsealed_bytes(path.read_bytes()), dtype=np.int64)
        except (OSError, ValueError):  # not there, or damaged
            return None
        return rows if len(rows) and int(rows.min()) >= 0 and int(rows.max()) < self._count() else None

    def _count(self) -> int:
        """Rows that are whole: with a vector, a key and a checksum."""
        found = min(_size(self.folder / VECTORS) // self._row_bytes, _size(self.folder / KEYS) // KEY_BYTES)
        return self._pieces(found).rows if (self.folder / PIECES).exists() else found

    def _pieces(self, rows: int | None = None) -> Pieces:
        back = f"delete {self.folder}: its vectors are computed anew"
        return Pieces(self.folder, (VECTORS, KEYS), back, rows=rows)

    def _checked(self, rows: Rows) -> Rows:
        """The same, once their vectors and keys are known to be what was written."""
        if (self.folder / PIECES).exists():  # a store of an older version has none before it is added to
            pieces = self._pieces()
            keys = np.memmap(self.folder / KEYS, dtype=np.uint8, mode="r")
            for name, content in ((VECTORS, np.asarray(self.vectors()).view(np.uint8).reshape(-1)), (KEYS, keys)):
                pieces.check_rows(name, rows[rows >= 0], np.asarray(content))
        return rows

    def _completed(self, reading: Reading[str], wanted: NDArray[np.bool_] | None, progress: bool) -> Rows:
        """Rows of all sentences, with those computed that are missing and wanted."""
        self._tidy()
        keys = sentence_keys(reading)
        reading.report.check_kept()
        asked = np.ones(len(keys), dtype=bool) if wanted is None else wanted
        if len(asked) != len(keys):
            raise changed(reading)
        missing = _first_occurrences(keys, asked & (self._find(keys) < 0))
        if missing.any():
            self._write_description()
            self._add(MissingSentences(reading, keys, missing), progress)
        rows = self._find(keys)
        if (rows[asked] < 0).any():
            raise changed(reading)
        return rows

    def _tidy(self) -> None:
        """Before anything is added."""
        self._cut_off_what_is_not_whole()
        self._forget_what_is_lost()
        self._check_keys()

    def _cut_off_what_is_not_whole(self) -> None:
        count = self._count()
        for name, size in ((VECTORS, self._row_bytes), (KEYS, KEY_BYTES)):
            if _size(self.folder / name) > count * size:
                os.truncate(self.folder / name, count * size)

    def _forget_what_is_lost(self) -> None:
        """Of rows that were lost with the end of a damaged file: they would soon be other sentences' rows."""
        for path in (self.folder / "rows").iterdir():
            if path.name.startswith(".") or self._known_rows(path) is None:
                path.unlink()

    def _check_keys(self) -> None:
        """All of them: a key that is damaged would have its vector computed again, or stand for another sentence."""
        count = self._count()
        if count and (self.folder / PIECES).exists():
            self._pieces(count).check_all(KEYS, np.fromfile(self.folder / KEYS, dtype=np.uint8))

    def _add(self, missing: MissingSentences, progress: bool) -> None:
        wanted = missing.wanted
        with (
            progress_bar(f"vectors of {self.encoder.name}", len(wanted), "sentences", shown=progress) as advance,
            at_inference(self.encoder),
            closing(self._windows(missing, advance)) as coming,
        ):
            self._append(wanted, coming)

    def _append(self, wanted: Keys, coming: Iterable[NDArray[np.floating[Any]]]) -> None:
        """coming: the vectors of the sentences with these keys, window after window."""
        written = 0
        with (
            open(self.folder / VECTORS, "ab") as vectors,
            open(self.folder / KEYS, "ab") as key_file,
            closing(self._piece_writer()) as pieces,
        ):
            for found in coming:
                if not np.isfinite(found).all():
                    raise InputError(
                        f"{self.encoder.name}: gives vectors that are not finite numbers; it cannot teach."
                    )
                half = found.astype(np.float16)
                keys = np.ascontiguousarray(wanted[written : written + len(found)])
                for file, content in ((vectors, half), (key_file, keys)):
                    file.write(content.data)
                    file.flush()
                    os.fsync(file.fileno())  # a checksum must not outlive a power cut that its row does not
                pieces.append(self._in_pieces(half, keys))
                written += len(found)

    def _piece_writer(self) -> PieceWriter:
        """With checksums of the rows of an older version, which had none."""
        count, had_none = self._count(), not (self.folder / PIECES).exists()
        sync_folder(self.folder)
        pieces = PieceWriter(self.folder, (VECTORS, KEYS), f"delete {self.folder}", rows=count)
        if had_none and count:
            keys: Keys = np.fromfile(self.folder / KEYS, dtype=np.uint64, count=2 * count).reshape(-1, 2)
            half = np.memmap(self.folder / VECTORS, dtype=np.float16, mode="r", shape=(count, self.dimension))
            pieces.append(self._in_pieces(half, keys))
        return pieces

    def _in_pieces(self, vectors: NDArray[np.float16], keys: Keys) -> list[tuple[int, list[bytes]]]:
        step = rows_in_a_piece(self._row_bytes)
        starts = range(0, len(vectors), step)
        parts = [(vectors[start : start + step], keys[start : start + step]) for start in starts]
        return [(len(some), [some.tobytes(), their_keys.tobytes()]) for some, their_keys in parts]

    def _windows(self, missing: MissingSentences, advance: Advance) -> Generator[NDArray[np.floating[Any]]]:
        """The same windows whoever encodes: they decide the batches, and batches the last bit of a vector."""
        bulk = BulkEncoding(
            self.encoder, normalize=True, precision=self.precision, prompt=self.encoder.settings.prompt(None)
        )
        if self.workforce is None:
            return bulk.windows(chunks(missing, self._window), advance)
        return self.workforce.windows(missing, self._window, bulk.options, advance)

    @property
    def _window(self) -> int:
        """Sentences between two writes."""
        return WINDOW_ON_GPU if self.device.type == "cuda" else WINDOW_ON_CPU

    def _find(self, keys: Keys) -> Rows:
        """The row of each key, −1 where there is none."""
        count = self._count()
        rows = np.full(len(keys), -1, dtype=np.int64)
        if not count:
            return rows
        known: Keys = np.fromfile(self.folder / KEYS, dtype=np.uint64, count=2 * count).reshape(-1, 2)
        order = np.argsort(known[:, 0])
        first, second = known[order, 0], known[order, 1]
        at = np.searchsorted(first, keys[:, 0])
        open_ones = np.arange(len(keys))
        while len(open_ones):  # again only for keys that share their first half with another
            open_ones = open_ones[at[open_ones] < count]
            open_ones = open_ones[first[at[open_ones]] == keys[open_ones, 0]]
            hit = second[at[open_ones]] == keys[open_ones, 1]
            rows[open_ones[hit]] = order[at[open_ones[hit]]]
            open_ones = open_ones[~hit]
            at[open_ones] += 1
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
        write_sealed_json(self.folder / "model.json", facts)


def damage(folder: Path) -> list[str]:
    """What is wrong with a store, one line each."""
    try:
        pieces = Pieces(folder, (VECTORS, KEYS), "delete the folder")
    except FileNotFoundError:  # of an older version
        return []
    except DamagedError as error:
        return [str(error)]
    found = pieces.damage({name: np.fromfile(folder / name, dtype=np.uint8) for name in (VECTORS, KEYS)})
    for path in (folder / "rows").glob("*.bin"):
        try:
            unsealed_bytes(path.read_bytes())
        except (OSError, ValueError) as error:
            found.append(f"{path}: is damaged ({error})")
    return found


def _first_occurrences(keys: Keys, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Marks one sentence of each kind, of those that are marked."""
    indices = np.flatnonzero(among)
    order = np.lexsort((keys[indices, 1], keys[indices, 0]))
    ordered = keys[indices[order]]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    chosen = np.zeros(len(keys), dtype=bool)
    chosen[indices[order[new]]] = True
    return chosen


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
