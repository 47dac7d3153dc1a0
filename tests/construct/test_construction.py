"""A folder that is built piece by piece: nothing finished is lost, nothing is mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.construct.construction import Construction, check_folder
from nearer.errors import InputError, SettingError
from nearer.storage.sealed import read_sealed_json

ABOUT = {"kind": "test", "seed": 1, "corpus": "abc"}


def test_records_stand_in_the_order_of_their_numbers_not_of_their_making(tmp_path: Path) -> None:
    with Construction(tmp_path / "d", ABOUT, notes={"by": "hand"}) as building:
        building.add(2, {"text": "zwei"})
        building.reject(1, "too short", "e")
        building.add(0, {"text": "null ü"})
        place = building.finish({"tokens": 7})
    assert [json.loads(line)["text"] for line in place.read_text(encoding="utf-8").splitlines()] == ["null ü", "zwei"]
    header = read_sealed_json(tmp_path / "d/about.json", "")
    assert header == {
        "about": ABOUT,
        "notes": {"by": "hand"},
        "result": {"records": 2, "rejected": {"too short": 1}, "tokens": 7},
    }


def test_it_goes_on_after_a_death_in_the_middle_of_a_line(tmp_path: Path) -> None:
    with Construction(tmp_path, ABOUT) as building:
        building.add(0, {"text": "a"})
        building.reject(1, "empty")
    with open(tmp_path / "journal.jsonl", "ab") as file:
        file.write(b'{"number": 2, "rec')
    with Construction(tmp_path, ABOUT) as building:
        assert building.done == {0, 1}
        assert building.rejected == {"empty": 1}
        building.add(2, {"text": "b"})
        place = building.finish()
    assert len(place.read_text().splitlines()) == 2


@given(order=st.permutations(range(6)), cut=st.integers(0, 6))
def test_order_and_interruption_change_nothing(
    order: list[int], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("d") / "x"
    for part in (order[:cut], order[cut:]):
        with Construction(folder, ABOUT) as building:
            for number in part:
                building.add(number, {"n": number})
    assert Construction(folder, ABOUT).finish().read_text() == "".join(f'{{"n": {n}}}\n' for n in range(6))


@pytest.mark.parametrize(("change", "named"), [({"seed": 2}, "seed 1, 2 asked"), ({"limit": 5}, "limit null, 5 asked")])
def test_another_construction_in_the_same_folder_is_refused(tmp_path: Path, change: dict, named: str) -> None:
    Construction(tmp_path, ABOUT).close()
    with pytest.raises(SettingError, match=named):
        Construction(tmp_path, {**ABOUT, **change})


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SettingError, match="holds other files"):
        Construction(tmp_path, ABOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_nothing_built_is_an_error_that_says_what_was_rejected(tmp_path: Path) -> None:
    with Construction(tmp_path, ABOUT) as building:
        building.reject(0, "empty")
        with pytest.raises(InputError, match="no record came out of it \\(empty 1\\)"):
            building.finish()


def test_a_damaged_line_in_the_journal_is_named(tmp_path: Path) -> None:
    with Construction(tmp_path, ABOUT) as building:
        building.add(0, {"text": "a"})
    with open(tmp_path / "journal.jsonl", "a") as file:
        file.write("what?\n")
    with pytest.raises(InputError, match="line 2 is damaged"):
        Construction(tmp_path, ABOUT)


def test_parquet_has_the_header_in_its_metadata(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Construction(tmp_path, ABOUT, format="parquet") as building:
        building.add(0, {"sentences": ["a", "b"]})
        place = building.finish()
    table = parquet.read_table(place)
    assert table.to_pylist() == [{"sentences": ["a", "b"]}]
    assert json.loads(table.schema.metadata[b"nearer"])["about"] == ABOUT


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        Construction(tmp_path / "file" / "d", ABOUT)


def test_looking_at_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    check_folder(tmp_path / "new/deep")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    check_folder(tmp_path / "kept")
    assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        check_folder(tmp_path / "file/in")


def test_many_pieces_at_once_are_as_one_by_one(tmp_path: Path) -> None:
    pieces = [(number, {"n": number}) for number in (3, 0, 2)]
    with Construction(tmp_path / "many", ABOUT) as many, Construction(tmp_path / "each", ABOUT) as each:
        many.add_many(pieces)
        assert many.done == {0, 2, 3}
        assert list(many.records()) == [(0, {"n": 0}), (2, {"n": 2}), (3, {"n": 3})]
        for number, record in pieces:
            each.add(number, record)
        assert many.finish().read_text() == each.finish().read_text()


def test_parquet_in_parts_is_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("nearer.construct.construction.RECORDS_AT_ONCE", 2)
    records = [{"texts": [], "near": 1}, {"texts": [], "near": 2}, {"texts": ["a"], "near": 0.5}]
    with Construction(tmp_path, ABOUT, format="parquet") as building:
        building.add_many(enumerate(records))
        table = parquet.read_table(building.finish())
    assert table.to_pylist() == records
