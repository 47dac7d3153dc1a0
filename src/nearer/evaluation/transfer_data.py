"""Reading SentEval's transfer sets from a folder in its layout, and labelled sentences of one's own.

| task | files | examples |
| --- | --- | --- |
| `mr`, `cr`, `subj`, `mpqa` | a file a class, latin-1, a sentence a line | 10 662, 3 775, 10 000, 10 606 |
| `sst2` | `SST/binary/sentiment-*`: sentence, tab, 0 or 1 | 67 349, 872, 1 821 |
| `trec` | `TREC/*.label`, latin-1: `CLASS:subclass question` | 5 452, 500 |
| `mrpc` | `MRPC/msr_paraphrase_*.txt`: 0 or 1, two ids, two sentences | 4 076, 1 725 |

`mr-dev`, `sst2-dev` and so on are for choosing models: the dev accuracy of the `fast` setting, in which no test
example has a part. Only SST-2 has dev examples of its own; the others' dev accuracy is that of the folds by which a
strength is chosen.

The files are known to the line, so anything unexpected in them is an error. A few lines of CR and MPQA are empty;
they are examples all the same, with the vector of the empty text. Each file may be compressed (`NAME.xz`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nearer.errors import InputError, SettingError, did_you_mean
from nearer.evaluation.strict_reading import MAX_CHARACTERS, filled_text, stored, stored_lines, strictly
from nearer.evaluation.sts_data import MissingData
from nearer.evaluation.task import Form, KnownTask, TaskKind, find_published
from nearer.evaluation.transfer import ACCURACY, DEV_ACCURACY, Example, TransferTask, in_order
from nearer.text.faults import Fault
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import Clean, Field, Shape, Unusable

HINT = "name the folder in which SentEval's MR, CR, SUBJ, MPQA, SST, TREC and MRPC lie (data/downstream in its own)"
DEV = "-dev"
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


class _BadLine(Exception):
    """What a line is or has that it should not."""


@dataclass(frozen=True)
class SetFile:
    """A file of a set: how many lines hold an example, and how one does."""

    path: str
    count: int
    example: Callable[[str], Example]
    encoding: str = "utf-8"
    header: bool = False


@dataclass(frozen=True)
class TransferSet:
    """A set as it is shown, its design and classes, and the files of its parts."""

    name: str
    design: str
    classes: tuple[str, ...]
    train: tuple[SetFile, ...]
    dev: tuple[SetFile, ...] = ()
    test: tuple[SetFile, ...] = ()


def _words(text: str) -> str:
    return " ".join(text.split())


def _sentence(line: str, label: int) -> Example:
    return Example((_words(line),), label)


def _sst(line: str) -> Example:
    cells = line.strip().split("\t")
    if len(cells) != 2:
        raise _BadLine(f"has {len(cells)} columns, a sentence and a label are expected")
    return Example((_words(cells[0]),), _zero_or_one(cells[1]))


def _trec(line: str) -> Example:
    label, _, question = line.strip().partition(":")
    if label not in TREC_CLASSES:
        raise _BadLine(f"begins with {label[:20]!r}, not with one of {', '.join(TREC_CLASSES)}")
    _, _, words = question.partition(" ")  # after the subclass
    if not words.strip():
        raise _BadLine("has no question")
    return Example((_words(words),), TREC_CLASSES.index(label))


def _mrpc(line: str) -> Example:
    cells = line.strip().split("\t")
    if len(cells) != 5:
        raise _BadLine(f"has {len(cells)} columns, 5 are expected")
    return Example((_words(cells[3]), _words(cells[4])), _zero_or_one(cells[0]))


def _zero_or_one(text: str) -> int:
    if text not in ("0", "1"):
        raise _BadLine(f"has the label {text[:20]!r}, which is neither 0 nor 1")
    return int(text)


def _two_classes(name: str, classes: tuple[str, str], files: Sequence[tuple[str, int]]) -> TransferSet:
    """A set with a file a class, that of class 1 first."""
    train = tuple(
        SetFile(path, count, partial(_sentence, label=label), "latin-1")
        for label, (path, count) in zip((1, 0), files, strict=True)
    )
    return TransferSet(name, "nested folds", classes, train)


OPINIONS = ("negative", "positive")
TRANSFER = {
    "mr": _two_classes("MR", OPINIONS, [("MR/rt-polarity.pos", 5331), ("MR/rt-polarity.neg", 5331)]),
    "cr": _two_classes("CR", OPINIONS, [("CR/custrev.pos", 2407), ("CR/custrev.neg", 1368)]),
    "subj": _two_classes(
        "SUBJ", ("subjective", "objective"), [("SUBJ/subj.objective", 5000), ("SUBJ/subj.subjective", 5000)]
    ),
    "mpqa": _two_classes("MPQA", OPINIONS, [("MPQA/mpqa.pos", 3312), ("MPQA/mpqa.neg", 7294)]),
    "sst2": TransferSet(
        "SST-2",
        "split",
        OPINIONS,
        train=(SetFile("SST/binary/sentiment-train", 67349, _sst),),
        dev=(SetFile("SST/binary/sentiment-dev", 872, _sst),),
        test=(SetFile("SST/binary/sentiment-test", 1821, _sst),),
    ),
    "trec": TransferSet(
        "TREC",
        "folds",
        TREC_CLASSES,
        train=(SetFile("TREC/train_5500.label", 5452, _trec, "latin-1"),),
        test=(SetFile("TREC/TREC_10.label", 500, _trec, "latin-1"),),
    ),
    "mrpc": TransferSet(
        "MRPC",
        "folds",
        ("different", "paraphrase"),
        train=(SetFile("MRPC/msr_paraphrase_train.txt", 4076, _mrpc, header=True),),
        test=(SetFile("MRPC/msr_paraphrase_test.txt", 1725, _mrpc, header=True),),
    ),
}
TRANSFER_DEV = {f"{name}{DEV}": known for name, known in TRANSFER.items()}


def load_transfer(
    name: str,
    folder: str | Path,
    *,
    setting: str | None = None,
    measure: str | None = None,
    device: str | None = None,
) -> TransferTask:
    """The task of this name from SentEval's folders.

    setting: `test` or `fast`; measure: `accuracy` or `dev accuracy`, with which the test files are not read. None is
    `test` and `accuracy`, and for names that end in `-dev` the others.
    """
    lowered = name.lower()
    for_dev = lowered in TRANSFER_DEV
    if lowered not in TRANSFER and not for_dev:
        known = (*TRANSFER, *TRANSFER_DEV)
        raise SettingError(f"tasks: {name!r} is not one of {', '.join(known)}.{did_you_mean(lowered, known)}")
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{folder}: no such data folder; {HINT}.")
    wanted = TRANSFER[lowered.removesuffix(DEV)]
    measure = measure or (DEV_ACCURACY if for_dev else ACCURACY)
    return TransferTask(
        name=wanted.name,
        design=wanted.design,
        classes=wanted.classes,
        train=_read(root, wanted.train),
        dev=_read(root, wanted.dev),
        test=[] if measure == DEV_ACCURACY else _read(root, wanted.test),
        setting=setting or ("fast" if for_dev else "test"),
        measure=measure,
        device=device,
    )


def load_labelled(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    setting: str = "test",
    measure: str = ACCURACY,
    name: str | None = None,
    device: str | None = None,
) -> TransferTask:
    """Sentences of one's own with a class each, in columns `sentence` and `label`, tested in folds as MR is."""
    options = ReadOptions(None if columns is None else tuple(columns), max_characters=MAX_CHARACTERS)
    reading: Reading[tuple[str, str]] = Reading(path, LABELLED, options)
    pairs = [pair for _, pair in strictly(reading)]
    classes = tuple(sorted({label for _, label in pairs}))
    examples = [Example((sentence,), classes.index(label)) for sentence, label in pairs]
    return TransferTask(
        name=name or Path(path).name.lstrip(".").split(".")[0],
        design="nested folds",
        classes=classes,
        train=in_order(examples),
        dev=[],
        test=[],
        setting=setting,
        measure=measure,
        layout="file",
        source=str(path),
        device=device,
    )


def _labelled(values: Sequence[Any], clean: Clean) -> tuple[str, str]:
    if not isinstance(values[1], (str, int)):
        raise Unusable(Fault.WRONG_FIELDS, f"label: text or a whole number expected, {type(values[1]).__name__} found")
    return filled_text(values[0], "sentence"), filled_text(str(values[1]), "label")


LABELLED = Shape(
    "labelled sentence",
    "labelled sentences",
    (Field(("sentence", "text")), Field(("label", "class", "category"))),
    _labelled,
)


FORMS = {"transfer:": "test", "transfer-fast:": "fast"}  # form: setting
FAST = {f"{name}-fast": name for name in TRANSFER}


def _load(name: str, data: str | Path | None, strict: bool) -> TransferTask:
    for form, setting in FORMS.items():
        if name.startswith(form):
            return load_labelled(name.removeprefix(form), setting=setting)
    folder = find_published(name, "SentEval's sets", data)
    return load_transfer(FAST.get(name, name), folder, setting="fast" if name in FAST else None)


TRANSFER_KIND = TaskKind(
    "transfer",
    _load,
    known={
        **{name: KnownTask(known.name, is_test=True, needs_data=True) for name, known in TRANSFER.items()},
        **{fast: KnownTask(TRANSFER[name].name, is_test=True, needs_data=True) for fast, name in FAST.items()},
        **{name: KnownTask(f"{known.name} dev", needs_data=True) for name, known in TRANSFER_DEV.items()},
    },
    groups={"transfer": tuple(TRANSFER), "transfer-fast": tuple(FAST), "transfer-dev": tuple(TRANSFER_DEV)},
    forms=(Form("transfer:", "FILE"), Form("transfer-fast:", "")),
    title="Classification on top of the vectors",
)


def _read(root: Path, files: Sequence[SetFile]) -> list[Example]:
    return in_order(example for file in files for example in _file_examples(root / file.path, file))


def _file_examples(path: Path, file: SetFile) -> list[Example]:
    lines = _lines(path, file.encoding)
    skipped = 1 if file.header else 0
    if len(lines) - skipped != file.count:
        raise InputError(
            f"{path}: has {max(0, len(lines) - skipped):,} examples, {file.count:,} are expected; take the file as "
            "SentEval makes it."
        )
    examples = []
    for number, line in enumerate(lines[skipped:], start=1 + skipped):
        try:
            examples.append(file.example(line))
        except _BadLine as problem:
            raise InputError(f"{path}: line {number} {problem}.") from None
    return examples


def _lines(path: Path, encoding: str) -> list[str]:
    if not stored(path).exists():
        raise MissingData(path, HINT)
    return stored_lines(path, encoding)
