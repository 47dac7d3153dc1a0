"""Encoding a file of sentences into a file of vectors, a window at a time: neither is ever held as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.encoder import Encoder
from nearer.encoder.encoding import WINDOW_ON_CPU, WINDOW_ON_GPU, BulkEncoding
from nearer.encoder.network import at_inference
from nearer.encoder.precision import check_precision
from nearer.encoder.workers import GrowingFile, encode_in_workers
from nearer.errors import DamagedError, InputError, SettingError, first_line
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.sealed import read_sealed_json, write_sealed_json
from nearer.storage.whole import written_by_us_alone
from nearer.terminal import Advance, progress_bar
from nearer.text.batches import chunks
from nearer.text.faults import ReadReport
from nearer.text.reading import Reading
from nearer.versions import library_versions

DTYPES = ("float32", "float16")


class EncodedFile(NamedTuple):
    """What was written: `lines` is None when every line of the source became a row."""

    vectors: Path
    facts: Path
    lines: Path | None
    rows: int
    dimension: int
    report: ReadReport

    def open(self) -> NDArray[Any]:
        """The vectors, mapped, once they are known to be what was written."""
        for damage in encoded_damage(self.facts):
            raise DamagedError(f"{damage}; encode the text anew.")
        vectors: NDArray[Any] = np.load(self.vectors, mmap_mode="r")
        return vectors


def encode_file(
    encoder: Encoder,
    reading: Reading[str],
    out: str | Path,
    *,
    batch_tokens: int | None = None,
    batch_size: int | None = None,
    normalize: bool | None = None,
    precision: str | None = None,
    dtype: str = "float32",
    devices: Sequence[str] | None = None,
    window: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> EncodedFile:
    """Write the vectors of a file's sentences as a NumPy file.

    Beside `vectors.npy`, `vectors.json` says what they are, with the checksums of both. Where lines were dropped, row
    and line numbers part ways, and `vectors.lines.npy` holds each row's line. Nothing has its final name before it is
    whole, and one process writes at a time.

    devices: a process for each of them (`["cuda:0", "cuda:1"]`, `["cpu", "cpu"]`), whatever the encoder's own; None
    encodes in this process. dtype: float32, or float16 for half the size. window: sentences that are worked on at a
    time, in each process; equal ones are computed once within a window, and again in the next.
    """
    path = check_output(out, overwrite=overwrite)
    if dtype not in DTYPES:
        raise SettingError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}.")
    if window is None:
        first = devices[0] if devices else encoder.device.type
        window = WINDOW_ON_GPU if first.startswith("cuda") else WINDOW_ON_CPU
    if window < 1:
        raise SettingError(f"window: {window} is below 1.")
    if devices is not None and not devices:
        raise SettingError("devices: none named.")
    normalize = encoder.settings.normalize if normalize is None else normalize
    precision = precision or encoder.precision
    bulk = BulkEncoding(
        encoder,
        normalize=normalize,
        precision=precision,
        prompt=encoder.settings.prompt(None),
        batch_tokens=batch_tokens,
        batch_size=batch_size,
    )
    lines_path = path.with_suffix(".lines.npy")
    with (
        written_by_us_alone(path.with_name(f".{path.name}.lock"), path, remove=True),
        GrowingFile(path, path.with_suffix(".partial"), dtype, (encoder.dimension,)) as vectors,
        GrowingFile(lines_path, path.with_suffix(".lines.partial"), "int64", ()) as lines,
        progress_bar("encoding", None, "sentences", shown=progress) as advance,
    ):
        windows = _windows(reading, window, lines)
        if devices is None:
            _encode_here(bulk, windows, vectors, advance)
        else:
            encode_in_workers(bulk, devices, windows, vectors, advance)
        report = reading.report
        report.check_kept()
        facts_path = path.with_suffix(".json")
        facts_path.unlink(missing_ok=True)  # both of another text, overwritten now
        lines_path.unlink(missing_ok=True)
        vectors.finish(vectors.rows)
        if report.dropped:
            lines.finish(lines.rows)
        facts = {
            "model": encoder.name,
            "pooling": encoder.settings.pooling,
            "max_length": encoder.settings.max_length,
            "text_normalisation": encoder.settings.text_normalisation,
            **({"template": encoder.settings.template.text} if encoder.settings.template else {}),
            "normalized": normalize,
            "precision": precision,
            "dtype": dtype,
            "rows": vectors.rows,
            "dimension": encoder.dimension,
            "reading": report.to_dict(),
            "libraries": library_versions(),
            "files": {file.name: file_sum(file)._asdict() for file in (path, lines_path) if file.exists()},
        }
        try:
            write_sealed_json(facts_path, facts)
        except OSError as error:
            raise InputError(f"{facts_path}: cannot be written ({error.strerror}).") from None
    return EncodedFile(
        path, facts_path, lines_path if report.dropped else None, vectors.rows, encoder.dimension, report
    )


def encoded_damage(facts_path: Path) -> Iterator[str]:
    """What is wrong with the files of an encoding, by what its `vectors.json` says of them."""
    try:
        facts = read_sealed_json(facts_path, "encode the text anew")
        sums = {str(name): FileSum(**one) for name, one in facts.get("files", {}).items()}
    except DamagedError as error:
        yield str(error)
        return
    except (OSError, ValueError, TypeError, AttributeError) as error:
        yield f"{facts_path}: cannot be read ({first_line(error)})"
        return
    for name, expected in sums.items():
        if fault := differs(facts_path.parent / name, expected):
            yield f"{facts_path.parent / name}: {fault}"


def check_output(out: str | Path, *, overwrite: bool) -> Path:
    """The path of the vectors, if they can go there: worth knowing before a model is loaded."""
    path = Path(out)
    if path.suffix != ".npy":
        raise InputError(f"{out}: the vectors are written as a NumPy file, its name must end in .npy.")
    if not path.parent.is_dir():
        raise InputError(f"{out}: the folder {path.parent} does not exist.")
    for taken in (path, path.with_suffix(".json"), path.with_suffix(".lines.npy")):
        if taken.exists() and not overwrite:
            raise InputError(
                f"{taken}: is there already; choose another name, or ask for overwriting.", argument="overwrite"
            )
    return path


def _windows(reading: Reading[str], size: int, lines: GrowingFile) -> Iterator[list[str]]:
    """The sentences in lists of `size`; the lines they come from are noted on the way."""
    for window in chunks(reading.located(), size):
        lines.append(np.array([line for line, _ in window], dtype=np.int64))
        yield [sentence for _, sentence in window]


def _encode_here(bulk: BulkEncoding, windows: Iterator[list[str]], file: GrowingFile, advance: Advance) -> None:
    check_precision(bulk.precision, bulk.encoder.device)
    with at_inference(bulk.encoder), closing(bulk.windows(windows, advance)) as found:
        for vectors in found:
            file.append(vectors)
