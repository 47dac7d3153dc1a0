"""Indexes that are cut, mixed up, of another format or not there, and places that cannot be written: one line each."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from search_text import write_lines

from nearer.encoder import Encoder
from nearer.errors import InputError, MissingExtraError, NearerError, SettingError
from nearer.search import SearchIndex


@pytest.fixture
def made(encoder: Encoder, corpus: Path, tmp_path: Path) -> Path:
    SearchIndex.build(encoder, corpus, tmp_path / "made", kind="ivf")
    return tmp_path / "made"


def change(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    found = json.loads(path.read_text())
    del found["checksum"]  # as who changes it on purpose does
    for place, value in changes.items():
        part = found
        *above, name = place.split("__")
        for step in above:
            part = part[step]
        part[name] = value
    path.write_text(json.dumps(found))


def refusal(folder: Path) -> str:
    with pytest.raises(NearerError) as told:
        SearchIndex.open(folder)
    [line] = str(told.value).splitlines()
    return line


class TestDamage:
    @pytest.mark.parametrize("name", ["vectors.bin", "texts.bin", "ends.bin", "lines.bin", "ivf-1.faiss"])
    def test_cut_files(self, name: str, made: Path, corpus: Path) -> None:
        size = (made / name).stat().st_size
        os.truncate(made / name, size - 1)
        cut = f"{made / name}: has {size - 1:,} bytes, {size:,} belong there; it was cut,"
        assert refusal(made) == f"{cut} build the index anew from {corpus}."
        (made / name).unlink()
        assert refusal(made) == f"{made / name}: is missing; build the index anew from {corpus}."

    def test_a_structure_of_the_right_size_with_other_content(self, made: Path) -> None:
        path = made / "ivf-1.faiss"
        path.write_bytes(b"\x00" * path.stat().st_size)
        assert refusal(made).startswith(f"{path}: is not what was written (its checksum differs); build the index anew")
        change(made, structure__sum=None)
        assert refusal(made).startswith(f"{path}: is damaged (")

    def test_a_structure_of_another_index(self, made: Path, encoder: Encoder, more: Path, tmp_path: Path) -> None:
        SearchIndex.build(encoder, more, tmp_path / "other", kind="ivf")
        other = tmp_path / "other" / "ivf-1.faiss"
        shutil.copy(other, made / "ivf-1.faiss")
        change(made, structure__size=other.stat().st_size, structure__sum=None)
        assert "holds 40 vectors of 32 numbers (IndexIVFScalarQuantizer), the manifest says 60 of 32" in refusal(made)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"format": 7}, "has format 7, this version of nearer reads 4; build the index anew"),
            ({"dimension": 64}, "vectors.bin: has 7,680 bytes, 15,360 belong there"),
            ({"dimension": 16}, "holds 60 vectors of 32 numbers"),
            ({"count": 61}, "its sources have 60 rows, its count is 61"),
            ({"count": "many"}, "is damaged (count: "),
            ({"structure": None}, "kind ivf and its structure do not fit"),
            ({"structure__file": "../../x.faiss"}, "is damaged (structure.file: "),
            ({"structure__groups": 3}, "has 2 lists, the manifest says 3"),
            ({"surprise": 1}, "is damaged (surprise: "),
        ],
    )
    def test_manifests(self, changes: dict[str, Any], message: str, made: Path) -> None:
        change(made, **changes)
        assert message in refusal(made)

    @pytest.mark.parametrize("content", ["", "[]", "{", "{}", '"x"'])
    def test_no_manifest_at_all(self, content: str, made: Path) -> None:
        (made / "manifest.json").write_text(content)
        assert refusal(made).startswith(f"{made / 'manifest.json'}: is damaged (")

    def test_other_places(self, tmp_path: Path, corpus: Path) -> None:
        assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: no such index; `nearer search build` makes one."
        assert "is not an index (no manifest.json in it)" in refusal(tmp_path)
        assert "is not an index" in refusal(corpus)


class TestRefusals:
    def test_without_faiss(self, index: SearchIndex, encoder: Encoder, corpus: Path, monkeypatch) -> None:
        monkeypatch.setitem(sys.modules, "faiss", None)
        for ask in (lambda: index.search("rain"), lambda: SearchIndex.build(encoder, corpus, corpus.with_name("new"))):
            with pytest.raises(MissingExtraError, match=r"searching an index needs the package 'faiss': pip install"):
                ask()

    def test_what_is_there(self, made: Path, encoder: Encoder, more: Path, corpus: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"made: is there already; add to it .* ask for overwriting"):
            SearchIndex.build(encoder, more, made)
        assert len(SearchIndex.build(encoder, more, made, overwrite=True)) == 40
        with pytest.raises(InputError, match=r"corpus.txt: is a file; an index is a folder"):
            SearchIndex.build(encoder, more, corpus, overwrite=True)
        with pytest.raises(InputError, match="holds other files; name a new folder"):
            SearchIndex.build(encoder, more, tmp_path, overwrite=True)
        (tmp_path / "empty").mkdir()
        assert len(SearchIndex.build(encoder, more, tmp_path / "empty")) == 40

    def test_a_text_with_nothing_in_it(self, encoder: Encoder, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nothing in it could be used"):
            SearchIndex.build(encoder, write_lines(tmp_path / "empty.txt", []), tmp_path / "index")
        with pytest.raises(InputError, match="no such file"):
            SearchIndex.build(encoder, tmp_path / "none.txt", tmp_path / "index")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt"]

    def test_a_place_that_cannot_be_written(self, encoder: Encoder, corpus: Path) -> None:
        with pytest.raises(InputError, match=r"index: the index cannot be written \(.+\)\."):
            SearchIndex.build(encoder, corpus, corpus / "index")  # below a file: also for root

    def test_a_folder_that_cannot_be_locked(self, made: Path, encoder: Encoder, more: Path) -> None:
        index = SearchIndex.open(made, model=encoder)
        (made / "lock").unlink(missing_ok=True)
        (made / "lock").mkdir()
        with pytest.raises(InputError, match=r"made: cannot be written \(.+\)\."):
            index.add(more)

    def test_somebody_else_is_writing(self, made: Path, encoder: Encoder, more: Path) -> None:
        index = SearchIndex.open(made, model=encoder)
        with FileLock(made / "lock"), pytest.raises(InputError, match="another process is writing it"):
            index.add(more)

    @pytest.mark.parametrize(
        ("options", "message"),
        [({"kind": "tree"}, "'tree' is not one of"), ({"recall": 0}, "recall: 0 is not"), ({"seed": -1}, "below 0")],
    )
    def test_settings(self, options: dict[str, Any], message: str, encoder: Encoder, corpus: Path) -> None:
        with pytest.raises(SettingError, match=message):
            SearchIndex.build(encoder, corpus, corpus.with_name("index"), **options)
