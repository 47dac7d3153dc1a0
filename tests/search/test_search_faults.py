"""The power goes, the disk is full or broken, a bit flips: an index is the old one or the new one, or it says so."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_text import sentences

from faulty_disk import CUTS, RecordedDisk, failing, flip, small_files
from nearer.encoder import Encoder
from nearer.errors import DamagedError, InputError, NearerError
from nearer.search import SearchIndex, building
from nearer.search.verify import find_damage

OLD, NEW, OTHER = sentences(20, 1), sentences(24, 2), sentences(40, 3)
RECORDS = [{"_id": f"d{n}", "text": text} for n, text in enumerate(OLD)]
# moments and failures that are looked at in a run of all tests; the slow one looks at all of them
SAMPLED = 12
Texts = list[str] | None


def begin_another(encoder: Encoder, place: Path, text: list[str]) -> None:
    """An addition of other text, interrupted after its first window."""
    index = SearchIndex.open(place, model=encoder)
    append = building.RowWriter.append

    def interrupted(self: Any, rows: Any) -> Any:
        if self.extent.rows > len(OLD):
            raise KeyboardInterrupt
        return append(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building.RowWriter, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.add(text)


class Action:
    """Something done to an index: what is there before, what is done, and what should be there after."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        self.name, self.encoder = name, encoder
        self.kind: Any = "ivf" if "ivf" in name else "hnsw" if "hnsw" in name else "exact"
        self.options: dict[str, Any] = {"kind": self.kind, "recall": 1.0, "lexical_weight": 1 if "words" in name else 0}
        self.removes = name.startswith("remove")
        self.before: Texts = None if name.startswith("build") else OLD
        self.after = {"build": NEW, "replace": NEW, "add": OLD + NEW, "remove": OLD[2:]}[name.split()[0]]

    def prepare(self, root: Path) -> None:
        if self.before is None:
            return
        source = RECORDS if self.removes else OLD
        SearchIndex.build(self.encoder, source, root / "index", **self.options)
        if self.name == "add over another":
            begin_another(self.encoder, root / "index", OTHER)

    def perform(self, root: Path) -> None:
        place = root / "index"
        if self.before is None or self.name == "replace":
            SearchIndex.build(self.encoder, NEW, place, overwrite=self.name == "replace", **self.options)
        elif self.removes:
            SearchIndex.open(place, model=self.encoder).remove(["d0", "d1"])
        else:
            SearchIndex.open(place, model=self.encoder).add(NEW, force=self.name == "add over another")

    def seen(self, root: Path) -> Texts:
        """None where there is no index; all that is found, in the order of its rows."""
        if not (root / "index").exists():
            return None
        index = SearchIndex.open(root / "index", model=self.encoder)
        assert find_damage(root / "index") == []
        hits = index.search("rain", 1000)
        return [hit.text for hit in sorted(hits, key=lambda hit: hit.row)]

    def repeat(self, root: Path) -> None:
        """By somebody who does not know whether it was done: in the end all is there, once."""
        if self.seen(root) == self.after and self.name != "replace":
            with pytest.raises(InputError, match=r"already|has no document"):
                self.perform(root)
        else:
            self.perform(root)
        assert self.seen(root) == self.after
        assert not (root / "index.partial").exists()


def sampled(everything: list[Any], request: pytest.FixtureRequest) -> list[Any]:
    """The first, the last and some between, other ones for each test; all where the test is marked as slow."""
    if request.node.get_closest_marker("slow") or len(everything) <= SAMPLED:
        return everything
    draw = random.Random(request.node.name)
    return [everything[0], *draw.sample(everything[1:-1], SAMPLED - 2), everything[-1]]


WORDS = ["build words", "add words", "remove words"]
ACTIONS = ["build", "build ivf", "build hnsw", "replace", "add", "add ivf", "add over another", "remove", *WORDS]
QUICK = ["build", "replace", "add ivf", "add over another", "remove", "add words"]
EVERY = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow, id=f"all of {name}") for name in ACTIONS)]


@pytest.fixture
def action(request: pytest.FixtureRequest, encoder: Encoder) -> Action:
    return Action(request.param, encoder)


@pytest.mark.parametrize("action", EVERY, indirect=True)
class TestFaults:
    def test_power_cuts(self, action: Action, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        action.prepare(tmp_path / "root")
        with RecordedDisk(tmp_path / "root") as disk:
            action.perform(tmp_path / "root")
        moments = [(moment, cut) for moment in range(len(disk.moments)) for cut in CUTS]
        assert len(moments) > 20
        states = []
        for moment, cut in sampled(moments, request):
            disk.after_power_cut(moment, cut, tmp_path / "found")
            found = action.seen(tmp_path / "found")
            assert found in (action.before, action.after), (moment, cut, disk.moments[moment].call)
            states.append(found)
            action.repeat(tmp_path / "found")
        assert states[0] == action.before
        assert states[-1] == action.after  # what was reported done

    def test_a_disk_that_is_full_or_broken(
        self, action: Action, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        action.prepare(tmp_path / "root")
        calls = self.failures(action, tmp_path, 10**9, errno.ENOSPC)
        cases = [(at, code) for at in range(len(calls)) for code in (errno.ENOSPC, errno.EIO)]
        assert len(cases) > 20
        for at, code in sampled(cases, request):
            self.failures(action, tmp_path, at, code)
            action.repeat(tmp_path / "found")

    def failures(self, action: Action, tmp_path: Path, at: int, code: int) -> list[str]:
        found = tmp_path / "found"
        shutil.rmtree(found, ignore_errors=True)
        if (tmp_path / "root").exists():
            shutil.copytree(tmp_path / "root", found)
        found.mkdir(exist_ok=True)
        with failing(found, at, code) as calls:
            try:
                action.perform(found)
            except NearerError as error:
                [line] = str(error).splitlines()
                assert len(calls) > at
                assert line.startswith(f"{found / 'index'}")
        assert action.seen(found) in (action.before, action.after)
        return calls


def test_what_was_begun_and_discarded_does_not_come_back(encoder: Encoder, tmp_path: Path) -> None:
    SearchIndex.build(encoder, OLD, tmp_path / "root" / "index")
    begun = [f"rain {text}" for text in NEW]
    instead = [f"away {text}" for text in NEW]  # as long, so that no size tells them apart
    begin_another(encoder, tmp_path / "root" / "index", begun)
    with RecordedDisk(tmp_path / "root") as disk:
        SearchIndex.open(tmp_path / "root" / "index", model=encoder).add(instead, force=True)
    for moment in range(0, len(disk.moments), 3):
        disk.after_power_cut(moment, "synced", tmp_path / "found")
        index = SearchIndex.open(tmp_path / "found" / "index", model=encoder)
        before = list(index.texts)
        index.add(begun, force=True)
        assert list(index.texts) == before + begun, moment
        np.testing.assert_allclose(index.vectors, encoder.encode(list(index.texts), normalize=True), atol=1e-5)


@pytest.mark.parametrize(
    ("action", "largest"),
    [("build", 1000), ("add", 3000), ("add ivf", 5400), ("build hnsw", 4000), ("replace", 1000)],
    indirect=["action"],
)
def test_files_that_cannot_grow(action: Action, largest: int, tmp_path: Path) -> None:
    action.prepare(tmp_path)
    with small_files(largest), pytest.raises(InputError) as told:
        action.perform(tmp_path)
    assert len(str(told.value).splitlines()) == 1
    assert str(told.value).startswith(f"{tmp_path / 'index'}")
    assert action.seen(tmp_path) == action.before
    action.perform(tmp_path)
    assert action.seen(tmp_path) == action.after


class TestFlippedBits:
    @pytest.fixture(params=["exact", "ivf", "hnsw"])
    def folder(self, request: pytest.FixtureRequest, encoder: Encoder, tmp_path: Path) -> Path:
        """Every kind of file that there is: ids, a removal, an addition that was interrupted."""
        index = SearchIndex.build(encoder, RECORDS, tmp_path / "index", kind=request.param)
        index.remove(["d3", "d5"])
        begin_another(encoder, tmp_path / "index", OTHER)
        return tmp_path / "index"

    @staticmethod
    def results(folder: Path, queries: Any) -> list[Any]:
        index = SearchIndex.open(folder)
        return [
            index.search(queries, 1000),
            index.search(queries, 1000, exact=True),
            index.search(queries, 3),
            list(index.texts),
            index.vectors.tobytes(),
            index.rows.tolist(),
            [index.origin(row) for row in range(len(index.texts))],
        ]

    def test_none_is_used_silently(self, folder: Path, encoder: Encoder) -> None:
        queries = encoder.encode(["rain", "the dog"])
        good = self.results(folder, queries)
        kinds = {"manifest.json", "pending.json", "lock", "pieces.bin", "vectors.bin", "texts.bin", "ends.bin"}
        kinds |= {"lines.bin", "documents.bin", "ids.bin", "id_ends.bin", "removed-2.bin"}
        files = {path.name for path in folder.iterdir()}
        assert files - {"ivf-1.faiss", "hnsw-1.faiss"} == kinds
        draw = random.Random(folder.name)
        told, same = 0, []
        for name, bit in self.bits(folder, sorted(files), draw):
            flip(folder / name, bit)
            try:
                found = self.results(folder, queries)
            except DamagedError:
                told += 1
                assert find_damage(folder), (name, bit)
            else:
                assert found == good, (name, bit)  # used, and something else than what was written
                same.append(name)
            flip(folder / name, bit)
        # nobody reads the lock, nor in searching what an addition left
        assert told >= 40
        assert {name for name in same if name not in ("lock", "pending.json")} == set()
        assert self.results(folder, queries) == good
        assert find_damage(folder) == []

    @staticmethod
    def bits(folder: Path, files: list[str], draw: random.Random) -> Iterator[tuple[str, int]]:
        """Of what counts: behind it lies what an addition left."""
        count = len(OLD)
        texts = len("".join(OLD).encode())
        ids = len("".join(record["_id"] for record in RECORDS))
        ends = {"texts.bin": texts, "ids.bin": ids, "vectors.bin": 128 * count, "pieces.bin": 2 * 128}
        ends |= dict.fromkeys(("ends.bin", "id_ends.bin", "lines.bin", "documents.bin"), 8 * count)
        for name in files:
            size = ends.get(name, (folder / name).stat().st_size)
            yield from ((name, draw.randrange(8 * size)) for _ in range(4))

    def test_what_an_addition_left_is_checked_before_it_is_gone_on_with(self, folder: Path, encoder: Encoder) -> None:
        for name in ("pending.json", "vectors.bin", "pieces.bin"):
            place = folder.with_name(name)
            shutil.copytree(folder, place)
            flip(place / name, 8 * (place / name).stat().st_size - 100)
            assert (name == "pending.json") == (find_damage(place) != [])
            index = SearchIndex.open(place, model=encoder)
            index.add(OTHER)
            assert list(index.texts) == OLD + OTHER
            np.testing.assert_allclose(index.vectors, encoder.encode(list(index.texts), normalize=True), atol=1e-5)
            assert find_damage(place) == []


def test_all_that_is_wrong_is_told(encoder: Encoder, corpus: Path, tmp_path: Path) -> None:
    place = tmp_path / "index"
    SearchIndex.build(encoder, corpus, place, kind="ivf")
    for name in ("vectors.bin", "lines.bin", "ivf-1.faiss"):
        flip(place / name, 1001)
    (place / "documents.bin").unlink()
    back = f"build the index anew from {corpus}."
    assert find_damage(place) == [
        f"{place / 'lines.bin'}: is damaged at rows 0 to 15 (its checksum differs); {back}",
        f"{place / 'documents.bin'}: is missing; {back}",
        f"{place / 'vectors.bin'}: is damaged at rows 0 to 15 (its checksum differs); {back}",
        f"{place / 'ivf-1.faiss'}: is not what was written (its checksum differs); {back}",
    ]
    flip(place / "manifest.json", 1001)
    [line] = find_damage(place)
    assert line.startswith(f"{place / 'manifest.json'}: is damaged (its checksum differs); build the index anew")


def test_threads_that_meet_damage_are_all_told(index: SearchIndex, encoder: Encoder) -> None:
    flip(index.folder / "vectors.bin", 5000)
    opened = SearchIndex.open(index.folder, model=encoder)
    looks: list[Callable[[], object]] = [lambda: opened.search("rain", 3), lambda: opened.vectors] * 8

    def told(look: Callable[[], object]) -> bool:
        with pytest.raises(DamagedError, match=r"vectors\.bin: is damaged at rows 0 to 15 "):
            look()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(told, looks))
    assert len(opened.vectors_of(np.arange(16, 60))) == 44  # the other pieces are good
