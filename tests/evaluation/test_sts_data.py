"""Miniature STS folders in each layout, and everything that can be wrong with one."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
import zstandard

from nearer.errors import InputError
from nearer.evaluation.sts_data import MissingData, load_sts
from nearer.evaluation.sts_sets import SEVEN, TASKS
from nearer.text import Pair


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_bytes().decode()
    assert text.count(old) == 1
    path.write_bytes(text.replace(old, new).encode())


def load(name: str, root: Path) -> list[Pair]:
    [task] = load_sts([name], root)
    return task.pairs


class TestLayouts:
    @pytest.mark.parametrize("layout", ["senteval", "raw"])
    def test_years(self, layout: str, mini_sts, tmp_path: Path) -> None:
        root = mini_sts.write(tmp_path / "data", layout)
        [sts12, sts16] = load_sts(["sts12", "sts16"], root)
        assert (sts12.name, sts12.split, sts12.layout) == ("STS12", "test", layout)
        assert sts12.subsets == {
            "MSRvid": [
                Pair('The "MSRvid" 0', "it's MSRvid, 0?", 0.25),
                Pair('The "MSRvid" 1', "it's MSRvid, 1?", 1.25),
            ],
            "surprise.OnWN": mini_sts.pairs("surprise.OnWN", 3),
        }
        assert sts16.subsets == {"headlines": mini_sts.pairs("headlines", 2)}

    @pytest.mark.parametrize("layout", ["senteval", "raw", "flat"])
    @pytest.mark.parametrize(("name", "split", "count"), [("stsb", "test", 3), ("stsb-dev", "dev", 2)])
    def test_benchmark(self, layout: str, name: str, split: str, count: int, mini_sts, tmp_path: Path) -> None:
        [task] = load_sts([name], mini_sts.write(tmp_path / "data", layout))
        assert (task.name, task.split, task.layout) == ("STS-B", split, layout)
        assert task.subsets == {"STS-B": mini_sts.pairs(f"STS-B {split}", count)}

    @pytest.mark.parametrize("layout", ["senteval", "raw"])
    @pytest.mark.parametrize(
        ("name", "split", "count"), [("sick-r", "test", 3), ("sick-r-dev", "dev", 2), ("sick-r-train", "train", 4)]
    )
    def test_sick(self, layout: str, name: str, split: str, count: int, mini_sts, tmp_path: Path) -> None:
        [task] = load_sts([name], mini_sts.write(tmp_path / "data", layout))
        assert (task.name, task.split, task.layout) == ("SICK-R", split, layout)
        assert task.pairs == mini_sts.pairs(f"SICK-R {split}", count)

    @pytest.mark.parametrize("layout", ["senteval", "raw", "flat"])
    def test_sick_whole(self, layout: str, mini_sts, tmp_path: Path) -> None:
        root = mini_sts.write(tmp_path / "data", layout)
        parts = [("train", 4), ("dev", 2), ("test", 3)]
        assert load("sick-r-all", root) == [p for split, n in parts for p in mini_sts.pairs(f"SICK-R {split}", n)]

    def test_a_flat_year_has_no_subsets(self, mini_sts, tmp_path: Path) -> None:
        [task] = load_sts(["sts12"], mini_sts.write(tmp_path / "data", "flat"))
        assert task.layout == "flat"
        assert task.subsets == {"STS12": [*mini_sts.pairs("MSRvid", 2), *mini_sts.pairs("surprise.OnWN", 3)]}

    @pytest.mark.parametrize("layout", ["senteval", "raw", "flat"])
    @pytest.mark.parametrize("ending", ["xz", "zst"])
    def test_compressed_files(self, layout: str, ending: str, mini_sts, tmp_path: Path) -> None:
        root = mini_sts.write(tmp_path / "data", layout)
        names = ["sts12", "sts16", "stsb", "sick-r-all"]
        wanted = load_sts(names, root)
        compress = {"xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress}[ending]
        for path in [path for path in root.rglob("*") if path.is_file()]:
            Path(f"{path}.{ending}").write_bytes(compress(path.read_bytes()))
            path.unlink()
        assert [task.subsets for task in load_sts(names, root)] == [task.subsets for task in wanted]

    @pytest.mark.parametrize("layout", ["senteval", "raw"])
    def test_the_seven(self, layout: str, mini_sts, tmp_path: Path) -> None:
        tasks = load_sts(SEVEN, mini_sts.write(tmp_path / "data", layout))
        assert [task.name for task in tasks] == ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
        assert {task.split for task in tasks} == {"test"}

    def test_all_names_load(self, mini_sts, tmp_path: Path) -> None:
        assert len(load_sts(TASKS, mini_sts.write(tmp_path / "data", "senteval"))) == 12


class TestLines:
    """What the files may hold besides plain pairs."""

    @pytest.fixture
    def root(self, mini_sts, tmp_path: Path) -> Path:
        return mini_sts.write(tmp_path / "data", "raw")

    def test_pairs_without_a_gold_score_are_dropped(self, mini_sts, root: Path) -> None:
        folder = root / "STS12-en-test"
        (folder / "STS.input.MSRvid.txt").write_text("no\tscore\na\tb\nblank\tscore\nc\td\n", encoding="utf-8")
        (folder / "STS.gs.MSRvid.txt").write_text("\n1\n  \n2\n", encoding="utf-8")
        assert load("sts12", root)[:2] == [Pair("a", "b", 1.0), Pair("c", "d", 2.0)]

    def test_an_unjudged_line_need_not_be_a_pair(self, mini_sts, root: Path) -> None:
        folder = root / "STS12-en-test"
        (folder / "STS.input.MSRvid.txt").write_text("nothing here\na\tb\nc\td\n", encoding="utf-8")
        (folder / "STS.gs.MSRvid.txt").write_text("\n1\n2\n", encoding="utf-8")
        assert load("sts12", root)[:2] == [Pair("a", "b", 1.0), Pair("c", "d", 2.0)]

    @pytest.mark.parametrize("file", ["STS13-en-test/STS.input.FNWN.txt", "STSBenchmark/sts-test.csv"])
    def test_further_columns_are_passed_over(self, file: str, mini_sts, root: Path) -> None:
        before = load("sts13", root), load("stsb", root)
        path = root / file
        path.write_text(path.read_text(encoding="utf-8").replace("\n", "\tlicence\tnote\n"), encoding="utf-8")
        assert (load("sts13", root), load("stsb", root)) == before

    @pytest.mark.parametrize("name", ["sts12", "stsb", "sick-r"])
    def test_line_ends_of_windows(self, name: str, mini_sts, root: Path) -> None:
        before = load(name, root)
        for path in root.glob("*/*"):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert load(name, root) == before

    @pytest.mark.parametrize("name", ["sts12", "stsb", "sick-r"])
    def test_a_byte_order_mark_and_no_last_line_end(self, name: str, mini_sts, root: Path) -> None:
        before = load(name, root)
        for path in root.glob("*/*"):
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().removesuffix(b"\n"))
        assert load(name, root) == before

    @pytest.mark.parametrize(
        "text", ['"open', '""', "a,b;c", "line\u2028break", "form\x0cfeed", "next\x85line", "中文"]
    )
    @pytest.mark.parametrize("name", ["sts13", "stsb-dev", "sick-r-dev"])
    def test_sentences_are_kept_literally(self, text: str, name: str, mini_sts, root: Path) -> None:
        pairs = [Pair(text, f"x{text}", 1.0), Pair(f"x{text}x", "y", 2.0)]
        mini_sts.write_year(root / "STS13-en-test", "STS", "FNWN", pairs)
        mini_sts.write_benchmark(root / "STSBenchmark" / "sts-dev.csv", pairs)
        mini_sts.write_sick(root / "SICK" / "SICK_trial.txt", pairs)
        assert load(name, root) == pairs

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_sick_columns_go_by_name(self, end: str, mini_sts, root: Path) -> None:
        lines = ["relatedness_score\tsentence_B\tx\tsentence_A", "4.5\tb\t-\ta", "1\td\t-\tc", ""]
        (root / "SICK" / "SICK_trial.txt").write_bytes(end.join(lines).encode())
        assert load("sick-r-dev", root) == [Pair("a", "b", 4.5), Pair("c", "d", 1.0)]


class TestErrors:
    @pytest.fixture
    def root(self, mini_sts, tmp_path: Path) -> Path:
        return mini_sts.write(tmp_path / "data", "senteval")

    def says(self, name: str, root: Path, message: str) -> None:
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            load(name, root)

    def test_no_folder(self, tmp_path: Path) -> None:
        self.says("sts12", tmp_path / "none", f"{tmp_path / 'none'}: no such data folder; `nearer data get sts`")

    @pytest.mark.parametrize(
        ("name", "file"),
        [
            ("sts12", "STS/STS12-en-test/STS.input.MSRvid.txt"),
            ("sts12", "STS/STS12-en-test/STS.gs.surprise.OnWN.txt"),
            ("stsb", "STS/STSBenchmark/sts-test.csv"),
            ("sick-r", "SICK/SICK_test_annotated.txt"),
            ("sick-r-all", "SICK/SICK_trial.txt"),
        ],
    )
    def test_missing_file(self, name: str, file: str, root: Path) -> None:
        (root / file).unlink()
        self.says(name, root, f"{root / file}: is missing; `nearer data get sts` fetches the sets")
        with pytest.raises(MissingData) as caught:
            load(name, root)
        assert caught.value.path == root / file

    def test_missing_year(self, root: Path) -> None:
        (root / "STS" / "STS12-en-test").rename(root / "elsewhere")
        self.says("sts12", root, f"{root / 'STS' / 'STS12-en-test'}: is missing")

    @pytest.mark.parametrize("name", ["sick-r", "sick-r-dev", "sick-r-train"])
    def test_splits_that_the_hub_does_not_mark(self, name: str, mini_sts, tmp_path: Path) -> None:
        flat = mini_sts.write(tmp_path / "flat", "flat")
        with pytest.raises(MissingData, match=r"does not mark its splits: ask for sick-r-all\.$"):
            load(name, flat)

    def test_more_scores_than_pairs(self, root: Path) -> None:
        path = root / "STS/STS12-en-test/STS.gs.MSRvid.txt"
        path.write_text("1\n2\n3\n", encoding="utf-8")
        self.says("sts12", root, f"{path}: has 3 lines, STS.input.MSRvid.txt has 2.")

    @pytest.mark.parametrize("score", ["x", "1,5", "nan", "inf", "1 2"])
    @pytest.mark.parametrize(
        ("name", "file", "line"),
        [
            ("sts12", "STS/STS12-en-test/STS.gs.MSRvid.txt", 2),
            ("stsb", "STS/STSBenchmark/sts-test.csv", 2),
            ("sick-r", "SICK/SICK_test_annotated.txt", 3),
        ],
    )
    def test_a_score_that_is_none(self, score: str, name: str, file: str, line: int, root: Path) -> None:
        replace(root / file, "1.25", score)
        self.says(name, root, f"{root / file}: line {line} has the score {score!r}, which is not a number.")

    def test_an_empty_score_in_the_benchmark(self, root: Path) -> None:
        path = root / "STS/STSBenchmark/sts-test.csv"
        replace(path, "1.25", "")
        self.says("stsb", root, f"{path}: line 2 has the score '', which is not a number.")

    @pytest.mark.parametrize(
        ("name", "file", "line", "text"),
        [
            ("sts12", "STS/STS12-en-test/STS.input.MSRvid.txt", 2, 'The "MSRvid" 1'),
            ("stsb", "STS/STSBenchmark/sts-test.csv", 2, "it's STS-B test, 1?"),
            ("sick-r", "SICK/SICK_test_annotated.txt", 3, "it's SICK-R test, 1?"),
        ],
    )
    def test_an_empty_sentence(self, name: str, file: str, line: int, text: str, root: Path) -> None:
        replace(root / file, text, " ")
        self.says(name, root, f"{root / file}: line {line} has an empty sentence.")

    @pytest.mark.parametrize(
        ("name", "file", "old", "message"),
        [
            (
                "sts12",
                "STS/STS12-en-test/STS.input.MSRvid.txt",
                "\tit's MSRvid, 1?",
                "2 has 1 columns, a pair needs 2.",
            ),
            ("stsb", "STS/STSBenchmark/sts-test.csv", "\t0001", "2 has 6 columns, at least 7 are expected."),
            ("sick-r", "SICK/SICK_test_annotated.txt", "\t1.25", "3 has 4 columns, the header has 5."),
        ],
    )
    def test_too_few_columns(self, name: str, file: str, old: str, message: str, root: Path) -> None:
        replace(root / file, old, "")
        self.says(name, root, f"{root / file}: line {message}")

    @pytest.mark.parametrize("header", ["", "a\tb\tc\n", "sentence_A\tsentence_B\n"])
    def test_a_header_without_the_names(self, header: str, root: Path) -> None:
        path = root / "SICK/SICK_trial.txt"
        path.write_text(header, encoding="utf-8")
        names = "sentence_A, sentence_B, relatedness_score"
        self.says("sick-r-dev", root, f"{path}: line 1 must name the columns {names}.")

    def test_too_few_pairs_in_a_subset(self, mini_sts, root: Path) -> None:
        mini_sts.write_year(root / "STS/STS12-en-test", "STS", "MSRvid", mini_sts.pairs("MSRvid", 1))
        path = root / "STS/STS12-en-test/STS.input.MSRvid.txt"
        self.says("sts12", root, f"{path}: 1 pairs with a score found, 2 expected.")

    @pytest.mark.parametrize("count", [0, 2, 4])
    def test_another_number_of_pairs(self, count: int, mini_sts, root: Path) -> None:
        pairs = mini_sts.pairs("x", count)
        mini_sts.write_benchmark(root / "STS/STSBenchmark/sts-test.csv", pairs)
        mini_sts.write_sick(root / "SICK/SICK_test_annotated.txt", pairs)
        mini_sts.write_flat(root / "STS16.test.jsonl", mini_sts.pairs("x", 5))
        self.says("stsb", root, f"{root}: STS-B (test) has {count} pairs, 3 are expected.")
        self.says("sick-r", root, f"{root}: SICK-R (test) has {count} pairs, 3 are expected.")
        self.says("sts16", root, f"{root}: STS16 (test) has 5 pairs, 2 are expected.")

    @pytest.mark.parametrize("line", ["{", '{"sentence1": "a", "sentence2": "b"}', '{"sentence1": "a", "score": 1}'])
    def test_a_faulty_line_in_a_fetched_file(self, line: str, mini_sts, tmp_path: Path) -> None:
        flat = mini_sts.write(tmp_path / "flat", "flat")
        path = flat / "STS16.test.jsonl"
        path.write_text(path.read_text(encoding="utf-8").splitlines()[0] + f"\n{line}\n", encoding="utf-8")
        self.says("sts16", flat, f"{path}: is not as it was fetched; fetch it again.\n{path}: 2 read")

    def test_text_that_is_not_utf8(self, root: Path) -> None:
        path = root / "STS/STS12-en-test/STS.input.MSRvid.txt"
        path.write_bytes(b"caf\xe9\tx\na\tb\n")
        self.says("sts12", root, f"{path}: line 1 is not valid utf-8; convert the file, if it is Latin-1 with iconv")

    def test_a_folder_in_a_files_place(self, root: Path) -> None:
        path = root / "STS/STSBenchmark/sts-test.csv"
        path.unlink()
        path.mkdir()
        self.says("stsb", root, f"{path}: is a folder, a file is needed.")
