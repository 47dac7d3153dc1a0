"""Fetching the STS sets from the Hugging Face hub, by data set name and pinned revision.

A revision is a digest of the data set's whole content, so what arrives is what was asked for; the number of pairs
is checked besides. The files are written in the `flat` layout with a `SHA256SUMS` that `nearer data check` verifies.
The hub's sets have no subsets, so only the aggregation `all` means something there, and SICK-R comes whole
(`sick-r-all`): its train, dev and test split is not marked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nearer.errors import InputError
from nearer.evaluation.sts_sets import expected_pairs
from nearer.storage.whole import whole_file, write_whole
from nearer.text import read_pairs
from nearer.text.records import Pair

SUMS = "SHA256SUMS"


class Hosted(NamedTuple):
    set_name: str
    split: str
    repository: str
    revision: str
    hub_split: str


_BENCHMARK = ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831")
HOSTED = (
    Hosted("STS12", "test", "mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384", "test"),
    Hosted("STS13", "test", "mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca", "test"),
    Hosted("STS14", "test", "mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375", "test"),
    Hosted("STS15", "test", "mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3", "test"),
    Hosted("STS16", "test", "mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513", "test"),
    Hosted("STS-B", "train", *_BENCHMARK, "train"),
    Hosted("STS-B", "dev", *_BENCHMARK, "validation"),
    Hosted("STS-B", "test", *_BENCHMARK, "test"),
    Hosted("SICK-R", "all", "mteb/sickr-sts", "20a6d6f312dd54037fe07a32d58e5e168867909d", "test"),
)


def fetch_sts(
    folder: str | Path, *, mirror: str | Path | None = None, report: Callable[[str], None] = lambda line: None
) -> None:
    """Fetch what is not in `folder` yet. `mirror`: a folder with copies of the hub's data sets, `owner/name` each."""
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be made ({error.strerror}).") from None
    for hosted in HOSTED:
        path = root / f"{hosted.set_name}.{hosted.split}.jsonl"
        if path.exists() and verify(path):
            report(f"{path.name}: already here")
            continue
        pairs = _fetched(hosted, root, mirror)
        _write(path, pairs)
        report(f"{path.name}: {len(pairs):,} pairs")


def verify(path: Path) -> bool:
    """Whether a fetched file is as it was written."""
    return _sums(path.parent).get(path.name) == _digest(path)


def _fetched(hosted: Hosted, root: Path, mirror: str | Path | None) -> list[Pair]:
    if mirror is None:
        source = f"hf:{hosted.repository}?split={hosted.hub_split}&revision={hosted.revision}"
    else:
        source = f"hf:{Path(mirror).resolve() / hosted.repository}?split={hosted.hub_split}"
    reading = read_pairs(source, columns=("sentence1", "sentence2", "score"))
    try:
        pairs = [pair for pair in reading if pair.score is not None]
    except InputError as error:
        raise InputError(
            f"{hosted.set_name} ({hosted.split}) cannot be fetched: {error} Without a network, put SentEval's folders "
            f"(STS/STS12-en-test …, SICK) or the raw ones (STS12-en-test …) into {root} by hand."
        ) from None
    expected = expected_pairs(hosted.set_name, hosted.split)
    if len(pairs) != expected:
        raise InputError(
            f"{source}: {len(pairs):,} usable pairs, {expected:,} expected; nothing was written.\n{reading.report}"
        )
    return pairs


def _write(path: Path, pairs: list[Pair]) -> None:
    rows = ({"sentence1": pair.first, "sentence2": pair.second, "score": pair.score} for pair in pairs)
    try:
        with whole_file(path) as partial:
            partial.write_bytes("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
            sums = {**_sums(path.parent), path.name: _digest(partial)}
            write_whole(path.parent / SUMS, (f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None


def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
