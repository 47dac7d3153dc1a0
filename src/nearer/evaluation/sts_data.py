"""The STS sets: read from a folder, in SentEval's layout, in the raw layout, or as `nearer data get` leaves them.

| layout | STS12–16 | STS-B, SICK-R | text |
| --- | --- | --- | --- |
| `senteval` | `STS/STS12-en-test/` | `STS/STSBenchmark/`, `SICK/` | Moses-tokenised, mostly lower-cased |
| `raw` | `STS12-en-test/` | `STSBenchmark/`, `SICK/` | as published, as MTEB uses it |
| `flat` | `STS12.test.jsonl` | `STS-B.test.jsonl`, `SICK-R.all.jsonl` | as published |

These files are known to the pair, so anything unexpected in them is an error, not a fault to count. Each may be
compressed (`NAME.xz`).

`fetch_sts` gets the sets from the Hugging Face hub, by data set name and pinned revision. A revision is a digest of the
data set's whole content, so what arrives is what was asked for; the number of pairs is checked besides. The files are
written in the `flat` layout with a `SHA256SUMS` that `nearer data check` verifies. The hub's sets have no subsets, so
only the aggregation `all` means something there, and SICK-R comes whole (`sick-r-all`): its train, dev and test split
is not marked.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nearer.encoder.sources import BUNDLED
from nearer.errors import InputError
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.strict_reading import stored, stored_lines
from nearer.evaluation.sts_sets import BENCHMARK, EVERYDAY, SEVEN, SICK, TASKS, YEARS, expected_pairs
from nearer.evaluation.task import KnownTask, TaskKind, find_published
from nearer.storage.whole import whole_file, write_whole
from nearer.text import read_pairs
from nearer.text.records import Pair

GET_HINT = "`nearer data get sts` fetches the sets; `nearer data check` shows what a folder holds"
WHOLE_HINT = "the hub's SICK-R, which is here, does not mark its splits: ask for sick-r-all"


class MissingData(InputError):
    """A set that is not in the folder: `path` is what was looked for."""

    def __init__(self, path: Path, hint: str = GET_HINT) -> None:
        super().__init__(f"{path}: is missing; {hint}.")
        self.path = path


def load_sts(names: Iterable[str], folder: str | Path) -> list[PairTask]:
    """The tasks of these names (those of `TASKS`), read from a data folder."""
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{folder}: no such data folder; {GET_HINT}.")
    return [_load(name, root) for name in names]


def load_pairs(name: str, data: str | Path | None, strict: bool = False) -> PairTask:
    """A set by its name, the bundled pairs, or a file of scored pairs."""
    if name == EVERYDAY:
        return file_task(BUNDLED / "everyday-pairs.tsv", name=EVERYDAY)
    if name not in TASKS:
        return file_task(name)
    [task] = load_sts([name], find_published(name, "the STS sets", data))
    return task


STS_KIND = TaskKind(
    "sts",
    load_pairs,
    known={
        EVERYDAY: KnownTask(),
        **{
            name: KnownTask(f"{set_name} {split}", is_test=split in ("test", "all"), needs_data=True)
            for name, (set_name, split) in TASKS.items()
        },
    },
    groups={"sts": SEVEN},
    shown="STS",
    title="STS: similarity of sentences",
)


def _load(name: str, root: Path) -> PairTask:
    set_name, split = TASKS[name]
    flat = stored(root / f"{set_name}.{split}.jsonl")
    layout, base = ("flat", root) if flat.exists() else _base(root)
    if layout == "flat":
        subsets = {set_name: _flat_pairs(flat)}
    elif set_name in YEARS:
        subsets = {
            subset: _year_pairs(base / f"{set_name}-en-test", subset, count)
            for subset, count in YEARS[set_name].items()
        }
    else:
        subsets = {set_name: _split_pairs(set_name, split, root, base)}
    found, expected = sum(map(len, subsets.values())), expected_pairs(set_name, split)
    if found != expected:
        raise InputError(f"{root}: {set_name} ({split}) has {found:,} pairs, {expected:,} are expected.")
    return PairTask(set_name, split, layout, subsets)


def _base(root: Path) -> tuple[str, Path]:
    """The layout, and the folder in which the years and the benchmark lie."""
    return ("senteval", root / "STS") if (root / "STS").is_dir() else ("raw", root)


def _split_pairs(set_name: str, split: str, root: Path, base: Path) -> list[Pair]:
    if set_name == "STS-B":
        return list(_benchmark_pairs(base / "STSBenchmark" / BENCHMARK[split][0]))
    paths = [root / "SICK" / SICK[part][0] for part in (SICK if split == "all" else (split,))]
    if not stored(paths[0]).exists() and stored(root / "SICK-R.all.jsonl").exists():
        raise MissingData(paths[0], WHOLE_HINT)
    return [pair for path in paths for pair in _sick_pairs(path)]


def _year_pairs(folder: Path, subset: str, count: int) -> list[Pair]:
    prefix = "STS" if stored(folder / f"STS.input.{subset}.txt").exists() else f"STS20{folder.name[3:5]}"
    inputs, golds = folder / f"{prefix}.input.{subset}.txt", folder / f"{prefix}.gs.{subset}.txt"
    if not stored(inputs).exists():
        raise MissingData(folder / f"STS.input.{subset}.txt" if folder.is_dir() else folder)
    sentences, scores = _lines(inputs), _lines(golds)
    if len(sentences) != len(scores):
        raise InputError(f"{golds}: has {len(scores):,} lines, {inputs.name} has {len(sentences):,}.")
    pairs = []
    for number, (line, score) in enumerate(zip(sentences, scores, strict=True), start=1):
        if score.strip():  # pairs without a gold score were never judged
            cells = line.split("\t")
            if len(cells) < 2:
                raise InputError(f"{inputs}: line {number} has {len(cells)} columns, a pair needs 2.")
            pairs.append(_pair(cells[0], cells[1], score, inputs, number, scores_path=golds))
    if len(pairs) != count:
        raise InputError(f"{inputs}: {len(pairs):,} pairs with a score found, {count:,} expected.")
    return pairs


def _benchmark_pairs(path: Path) -> Iterator[Pair]:
    """Genre, file, year, id, score, two sentences; licence notes may follow."""
    for number, line in enumerate(_lines(path), start=1):
        cells = line.split("\t")
        if len(cells) < 7:
            raise InputError(f"{path}: line {number} has {len(cells)} columns, at least 7 are expected.")
        yield _pair(cells[5], cells[6], cells[4], path, number)


def _sick_pairs(path: Path) -> Iterator[Pair]:
    lines = _lines(path)
    header = lines[0].split("\t") if lines else []
    names = ("sentence_A", "sentence_B", "relatedness_score")
    if any(name not in header for name in names):
        raise InputError(f"{path}: line 1 must name the columns {', '.join(names)}.")
    first, second, score = (header.index(name) for name in names)
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise InputError(f"{path}: line {number} has {len(cells)} columns, the header has {len(header)}.")
        yield _pair(cells[first], cells[second], cells[score], path, number)


def _flat_pairs(path: Path) -> list[Pair]:
    reading = read_pairs(path)
    pairs = list(reading)
    if reading.report.dropped or any(pair.score is None for pair in pairs):
        raise InputError(f"{path}: is not as it was fetched; fetch it again.\n{reading.report}")
    return pairs


def _pair(first: str, second: str, score: str, path: Path, number: int, *, scores_path: Path | None = None) -> Pair:
    pair = Pair(first.strip(), second.strip(), _score(score))
    if pair.score is None:
        shown = score.strip()[:20]
        raise InputError(f"{scores_path or path}: line {number} has the score {shown!r}, which is not a number.")
    if not (pair.first and pair.second):
        raise InputError(f"{path}: line {number} has an empty sentence.")
    return pair


def _score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return score if math.isfinite(score) else None


def _lines(path: Path) -> list[str]:
    if not stored(path).exists():
        raise MissingData(path)
    return stored_lines(path, "utf-8")


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
