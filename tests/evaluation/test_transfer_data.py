"""Reading SentEval's transfer sets and labelled files, and what can be wrong with them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nearer.errors import InputError, SettingError
from nearer.evaluation import transfer_data
from nearer.evaluation.sts_data import MissingData
from nearer.evaluation.transfer import Example
from nearer.evaluation.transfer_data import TRANSFER, TRANSFER_DEV, load_labelled, load_transfer

EACH = 16  # examples of each class in each file of a miniature


def words(number: int, more: str = "") -> str:
    return " ".join(["w", *["more"] * (number % 4), f"{number}{more}"])


def miniature_lines(name: str, path: str) -> list[str]:
    """What a file of the set holds, of every class so many."""
    numbers = range(EACH)
    if name == "sst2":
        return [f"{words(n)} \t{label}" for n in numbers for label in (0, 1)]
    if name == "trec":
        return [f"{label}:sub What is  {words(n)} ?" for n in numbers for label in transfer_data.TREC_CLASSES]
    if name == "mrpc":
        lines = [f"{label}\t1\t2\t{words(n)}\t{words(n, 'b')} ." for n in numbers for label in (0, 1)]
        return ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines]
    return [f"{words(n, Path(path).name)} " for n in numbers]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All seven sets in miniature, their counts made to fit."""
    for name, known in TRANSFER.items():
        smaller = {}
        for part in ("train", "dev", "test"):
            files = []
            for file in getattr(known, part):
                lines = miniature_lines(name, file.path)
                path = tmp_path / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes("".join(f"{line}\n" for line in lines).encode(file.encoding))
                files.append(replace(file, count=len(lines) - file.header))
            smaller[part] = tuple(files)
        monkeypatch.setitem(TRANSFER, name, replace(known, **smaller))
    return tmp_path


class TestOtherForms:
    @pytest.mark.parametrize("name", list(TRANSFER))
    def test_compressed_with_a_mark_and_carriage_returns(self, folder: Path, name: str) -> None:
        """A byte order mark makes a file UTF-8, also where the published one is Latin-1."""
        wanted = load_transfer(name, folder)
        for known in (*TRANSFER[name].train, *TRANSFER[name].dev, *TRANSFER[name].test):
            path = folder / known.path
            text = path.read_bytes().decode(known.encoding).removeprefix("\ufeff").replace("\n", "\r\n")
            path.unlink()
            Path(f"{path}.xz").write_bytes(lzma.compress(text.encode("utf-8-sig")))
        assert load_transfer(name, folder) == wanted

    def test_damaged(self, folder: Path) -> None:
        path = folder / "CR/custrev.pos"
        path.write_bytes(lzma.compress(path.read_bytes())[:-20])
        with pytest.raises(InputError, match=r"custrev\.pos: cannot be read \(the file ends in the middle"):
            load_transfer("cr", folder)


class TestSets:
    @pytest.mark.parametrize("name", list(TRANSFER))
    def test_every_set_is_read(self, folder: Path, name: str) -> None:
        task = load_transfer(name, folder)
        assert task.name == TRANSFER[name].name
        assert (task.setting, task.measure, task.layout) == ("test", "accuracy", "senteval")
        assert {example.label for example in task.train} == set(range(len(task.classes)))
        assert bool(task.test) == bool(TRANSFER[name].test)
        assert bool(task.dev) == (name == "sst2")

    def test_a_file_a_class(self, folder: Path) -> None:
        task = load_transfer("CR", folder)
        assert task.train[:2] == [Example(("w 0custrev.neg",), 0), Example(("w 4custrev.neg",), 0)]
        assert len(task.train) == 2 * EACH
        assert {task.classes[e.label] for e in task.train if e.texts[0].endswith(".pos")} == {"positive"}

    def test_objective_is_class_one(self, folder: Path) -> None:
        task = load_transfer("subj", folder)
        assert {task.classes[e.label] for e in task.train if e.texts[0].endswith(".objective")} == {"objective"}

    def test_questions(self, folder: Path) -> None:
        task = load_transfer("trec", folder)
        assert task.train[0] == Example(("What is w 0 ?",), 0)
        assert task.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

    def test_pairs(self, folder: Path) -> None:
        assert load_transfer("mrpc", folder).test[0] == Example(("w 0", "w 0b ."), 0)

    def test_examples_come_in_order_of_length_then_class(self, folder: Path) -> None:
        for name in TRANSFER:
            for part in ("train", "dev", "test"):
                examples = getattr(load_transfer(name, folder), part)
                keys = [(*[len(text.split()) for text in example.texts], example.label) for example in examples]
                assert keys == sorted(keys), (name, part)

    def test_latin_1_and_empty_lines(self, folder: Path) -> None:
        path = folder / "MPQA/mpqa.pos"
        path.write_bytes(b"caf\xe9  au lait \n \n" + b"w\n" * (EACH - 2))
        task = load_transfer("mpqa", folder)
        assert task.train[0] == Example(("",), 1)
        assert Example(("café au lait",), 1) in task.train


class TestDev:
    @pytest.mark.parametrize("name", list(TRANSFER))
    def test_no_test_example_is_read(self, folder: Path, name: str) -> None:
        for file in TRANSFER[name].test:
            (folder / file.path).unlink()
        task = load_transfer(f"{name}-dev", folder)
        assert (task.setting, task.measure, task.split) == ("fast", "dev accuracy", "dev")
        assert task.test == []

    def test_setting_and_measure_can_be_said(self, folder: Path) -> None:
        assert load_transfer("mr-dev", folder, setting="test").setting == "test"
        assert load_transfer("mr", folder, setting="fast").split == "5-fold"
        assert load_transfer("trec", folder, measure="dev accuracy").test == []

    def test_every_set_has_a_dev_name(self) -> None:
        assert [name.removesuffix("-dev") for name in TRANSFER_DEV] == list(TRANSFER)


class TestErrors:
    def test_a_missing_file(self, folder: Path) -> None:
        (folder / "SST/binary/sentiment-dev").unlink()
        with pytest.raises(MissingData, match=r"sentiment-dev: is missing; name the folder in which SentEval's MR"):
            load_transfer("sst2", folder)

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"nowhere: no such data folder; name the folder"):
            load_transfer("mr", tmp_path / "nowhere")

    @pytest.mark.parametrize(("name", "file"), [("mr", "MR/rt-polarity.neg"), ("mrpc", "MRPC/msr_paraphrase_test.txt")])
    def test_a_wrong_count(self, folder: Path, name: str, file: str) -> None:
        path = folder / file
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))
        count = len(lines) - (name == "mrpc")
        with pytest.raises(InputError, match=rf"{Path(file).name}: has {count - 1} examples, {count} are expected"):
            load_transfer(name, folder)

    def test_an_empty_file(self, folder: Path) -> None:
        (folder / "MRPC/msr_paraphrase_train.txt").write_bytes(b"")
        with pytest.raises(InputError, match="has 0 examples, 32 are expected"):
            load_transfer("mrpc", folder)

    @pytest.mark.parametrize(
        ("name", "file", "line", "message"),
        [
            ("sst2", "SST/binary/sentiment-train", "no label", "line 3 has 1 columns, a sentence and a label are exp"),
            ("sst2", "SST/binary/sentiment-train", "a film\t2", "line 3 has the label '2', which is neither 0 nor 1"),
            ("trec", "TREC/TREC_10.label", "WHAT:sub Why ?", "line 3 begins with 'WHAT', not with one of ABBR, DESC"),
            ("trec", "TREC/TREC_10.label", "NUM:dist", "line 3 has no question"),
            ("mrpc", "MRPC/msr_paraphrase_train.txt", "1\t2\t3\tone", "line 3 has 4 columns, 5 are expected"),
            ("mrpc", "MRPC/msr_paraphrase_train.txt", "x\t2\t3\ta\tb", "line 3 has the label 'x', which is neither"),
        ],
    )
    def test_an_unusable_line(self, folder: Path, name: str, file: str, line: str, message: str) -> None:
        path = folder / file
        lines = path.read_text(encoding="utf-8").split("\n")
        lines[2] = line
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(InputError, match=f"{Path(file).name}: {message}"):
            load_transfer(name, folder)

    def test_text_that_is_not_utf_8(self, folder: Path) -> None:
        path = folder / "SST/binary/sentiment-test"
        path.write_bytes(path.read_bytes().replace(b"more", b"m\xf6re", 1))
        with pytest.raises(InputError, match=r"sentiment-test: line \d+ is not valid utf-8; convert the file"):
            load_transfer("sst2", folder)

    def test_an_unknown_name(self, folder: Path) -> None:
        with pytest.raises(SettingError, match=r"tasks: 'sst-2' is not one of mr, .*Did you mean 'sst2'\?"):
            load_transfer("sst-2", folder)


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


ROWS = [(words(n), "spam" if n % 3 else "ham") for n in range(60)]


class TestOwnFiles:
    @pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
    def test_any_format(self, write: Write, ending: str) -> None:
        if ending == "jsonl":
            text = "".join(json.dumps({"label": label, "sentence": sentence}) + "\n" for sentence, label in ROWS)
        else:
            comma = "," if ending == "csv" else "\t"
            text = f"label{comma}text\n" + "".join(f"{label}{comma}{sentence}\n" for sentence, label in ROWS)
        task = load_labelled(write(f"mail.{ending}", text))
        assert (task.name, task.design, task.split, task.layout) == ("mail", "nested folds", "10-fold", "file")
        assert task.classes == ("ham", "spam")
        assert sorted(task.train) == sorted(Example((text,), int(label == "spam")) for text, label in ROWS)
        assert task.train[0] == Example(("w 0",), 0)

    def test_numbers_are_labels_too(self, write: Write) -> None:
        text = "".join(json.dumps({"sentence": sentence, "label": len(label)}) + "\n" for sentence, label in ROWS)
        assert load_labelled(write("mail.jsonl", text)).classes == ("3", "4")

    def test_columns_can_be_named(self, write: Write) -> None:
        text = "body,kind,label\n" + "".join(f"{sentence},{label},x\n" for sentence, label in ROWS)
        assert load_labelled(write("mail.csv", text), columns=("body", "kind")).classes == ("ham", "spam")

    def test_setting_measure_and_name(self, write: Write) -> None:
        path = write("mail.tsv", "".join(f"{sentence}\t{label}\n" for sentence, label in ROWS))
        task = load_labelled(path, setting="fast", measure="dev accuracy", name="Mail")
        assert (task.name, task.setting, task.split) == ("Mail", "fast", "dev")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"sentence": "one", "label": null}', "line 2: .*label: text or a whole number expected, NoneType found"),
            ('{"sentence": "one", "label": 0.5}', "line 2: .*label: text or a whole number expected, float found"),
            ('{"sentence": " ", "label": "x"}', "line 2: .*sentence: empty"),
            ('{"sentence": "one"}', "line 2: "),
            ("{", "line 2: not valid JSON"),
        ],
    )
    def test_an_unusable_line(self, write: Write, line: str, message: str) -> None:
        path = write("mail.jsonl", '{"sentence": "one", "label": "x"}\n' + line + "\n")
        with pytest.raises(InputError, match=f"mail.jsonl: {message}"):
            load_labelled(path)

    def test_one_class(self, write: Write) -> None:
        path = write("mail.tsv", "one\tx\ntwo\tx\n")
        with pytest.raises(InputError, match=r"mail.tsv: 2 labels, all are 'x'; a classifier needs two classes"):
            load_labelled(path)

    def test_a_rare_class(self, write: Write) -> None:
        path = write("mail.tsv", "".join(f"{sentence}\t{label}\n" for sentence, label in ROWS) + "one\tother\n")
        with pytest.raises(InputError, match=r"mail.tsv: the class 'other' has 1 examples, 10 folds need at least 10"):
            load_labelled(path)

    def test_an_empty_file(self, write: Write) -> None:
        with pytest.raises(InputError, match=r"mail.tsv: 0 labels, none is there"):
            load_labelled(write("mail.tsv", ""))
