"""Encoding a file of sentences into a file of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearer.encoder.encoder import Encoder
from nearer.errors import InputError
from nearer.text.faults import ReadReport
from nearer.text.reading import Reading
from nearer.versions import library_versions


class EncodedFile(NamedTuple):
    """What was written: `lines` is None when every line of the source became a row."""

    vectors: Path
    facts: Path
    lines: Path | None
    rows: int
    dimension: int
    report: ReadReport


def encode_file(
    encoder: Encoder,
    reading: Reading[str],
    out: str | Path,
    *,
    batch_size: int | None = None,
    normalize: bool | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> EncodedFile:
    """Write the vectors of a file's sentences as a NumPy file.

    Beside `vectors.npy`, `vectors.json` says what they are. Where lines were dropped, row and line numbers part
    ways, and `vectors.lines.npy` holds each row's line.
    """
    path = check_output(out, overwrite=overwrite)
    located = list(reading.located())
    report = reading.report
    if not located:
        raise InputError(f"{reading.source}: nothing in it could be used.\n{report}")
    vectors = encoder.encode(
        [sentence for _, sentence in located], batch_size=batch_size, normalize=normalize, progress=progress
    )
    lines_path = path.with_suffix(".lines.npy") if report.dropped else None
    facts = {
        "model": encoder.name,
        "pooling": encoder.settings.pooling,
        "max_length": encoder.settings.max_length,
        "text_normalisation": encoder.settings.text_normalisation,
        "normalized": encoder.settings.normalize if normalize is None else normalize,
        "rows": len(vectors),
        "dimension": vectors.shape[1],
        "reading": report.to_dict(),
        "libraries": library_versions(),
    }
    try:
        _save(path, vectors)
        path.with_suffix(".lines.npy").unlink(missing_ok=True)  # of another text, overwritten now
        if lines_path:
            _save(lines_path, np.array([line for line, _ in located], dtype=np.int64))
        facts_path = path.with_suffix(".json")
        facts_path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}).") from None
    return EncodedFile(path, facts_path, lines_path, len(vectors), vectors.shape[1], report)


def check_output(out: str | Path, *, overwrite: bool) -> Path:
    """The path of the vectors, if they can go there: worth knowing before a model is loaded."""
    path = Path(out)
    if path.suffix != ".npy":
        raise InputError(f"{out}: the vectors are written as a NumPy file, its name must end in .npy.")
    if not path.parent.is_dir():
        raise InputError(f"{out}: the folder {path.parent} does not exist.")
    for taken in (path, path.with_suffix(".json"), path.with_suffix(".lines.npy")):
        if taken.exists() and not overwrite:
            raise InputError(f"{taken}: is there already; choose another name or ask for overwriting (--force).")
    return path


def _save(path: Path, array: np.ndarray) -> None:
    """Whole or not at all: an interrupted run leaves no half-written file under the final name."""
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        np.save(file, array)
    partial.replace(path)
