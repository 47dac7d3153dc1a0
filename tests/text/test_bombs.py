"""Small files that stand for gigabytes: read in bounded memory, or refused with what to do."""

from __future__ import annotations

import base64
import io
import lzma
import zlib
from pathlib import Path
from typing import Any

import pytest

from nearer.errors import InputError
from nearer.text import Fault, parquet_pages, read_debiased, read_ranking_lists, read_sentences
from nearer.text import parquet as reader
from nearer.text import parquet as unpacking

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


# found by tests/fuzz: its column has a histogram of another size than its levels
ABORTING = [
    "ABzY8u`B#)1pmEKy-or_5S~5Ag@TY=v6tIqO=!573m~9U7@9fcqERD|_!B#X%V8nlfkI)yqxb|CK7y@p;ZsmLa~B>!3%_D!zS;S9",
    "XLh%X{kjCX5%Rt)Jz0>Z)J@oJtbPsW4;sq?fY)P#tS8nYD*;T38*nY)fca?1d|m$f*vSA`0#=^_WLA|A!7=B<ariip2FQHLaI%YV",
    "wJ5>4CV}lKt+WeT=2giosB}>pwr6iL_P62YTK_tv(saiK>a=B#RG?h&xJhcob92-VDDC92-@m*$N@sH3#2#ZG8NI|Jo*^#Lk1#-",
    "tupK2?-",
    "$%UQsEv5ap7_=i>u~Cd4MpT5)}Qb`gdP{C=mbfnpX8G;&GXTI?e2D5+j5d5>);e;gZSw=TvUd$S!EE%(`E4`jOP#2NwLwa)~a=-",
    "`7PcBK$m{m4|4|B6lwwh00",
]


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(arrow.table(columns), path, compression="zstd", **options)
    return path


def repeated(text: str, times: int) -> Any:
    """A column of one entry that stands there many times, written without being made."""
    return arrow.DictionaryArray.from_arrays(arrow.array([0] * times, arrow.int32()), arrow.array([text]))


def most_memory() -> int:
    """Bytes that Arrow had at once, ever since this process began."""
    return int(arrow.default_memory_pool().max_memory())


class TestParquet:
    def test_one_long_value_many_times(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", {"text": repeated("a" * 5_000_000, 500)}, store_schema=False)
        assert path.stat().st_size < 5_000
        reading = read_sentences(path, allow_dropped=True)
        assert list(reading) == []
        assert (reading.report.read, reading.report.count(Fault.OVER_LONG)) == (500, 500)
        assert "5,000,000 bytes" in str(reading.report)
        assert most_memory() < 2**30  # all of them are 2.5 GB

    def test_one_list_of_a_value_many_times(self, tmp_path: Path) -> None:
        lists = arrow.ListArray.from_arrays([0, 2, 20_002], repeated("a" * 90_000, 20_002))
        path = write(tmp_path / "a.parquet", {"sentences": lists}, store_schema=False)
        assert path.stat().st_size < 10_000
        reading = read_ranking_lists(path, max_characters=100_000, allow_dropped=True)
        assert [len(record.sentences) for record in reading] == [2]
        assert reading.report.count(Fault.OVER_LONG) == 1
        assert most_memory() < 2**30  # the second list is 1.8 GB

    def test_lists_are_read_as_before(self, tmp_path: Path) -> None:
        columns = {"anchor": ["a", "b"], "positives": [["c", "d"], ["e", "e"]], "negatives": [["f"], ["g"]]}
        found = list(read_debiased(write(tmp_path / "a.parquet", columns)))
        assert [(one.anchor, one.positives, one.negatives) for one in found] == [
            ("a", ("c", "d"), ("f",)),
            ("b", ("e", "e"), ("g",)),
        ]

    def test_values_are_cut_into_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reader, "BATCH_BYTES", 1000)
        texts = [f"{'x' * (number % 90)} {number}" for number in range(300)]
        found = read_sentences(write(tmp_path / "a.parquet", {"text": texts}))
        assert list(found) == [text.strip() for text in texts]

    @pytest.mark.parametrize("version", ["1.0", "2.0"])
    def test_a_page_that_is_too_large(self, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet_pages, "LARGEST_PAGE", 100_000)
        path = write(tmp_path / "a.parquet", {"text": ["a" * 200_000]}, use_dictionary=False, data_page_version=version)
        with pytest.raises(InputError, match=r"a\.parquet: holds a page of 2\d\d,\d{3} bytes, 100,000 at most .*pages"):
            list(read_sentences(path))

    def test_lists_of_too_many_values(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet_pages, "MOST_NESTED", 100)
        path = write(tmp_path / "a.parquet", {"sentences": [["a", "b"]] * 60})
        with pytest.raises(InputError, match=r"lists of 120 values, 100 at most are read; .*smaller row groups"):
            list(read_ranking_lists(path))
        assert len(list(read_ranking_lists(write(path, {"sentences": [["a", "b"]] * 60}, row_group_size=40)))) == 60

    def test_lists_of_differences(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet_pages, "LARGEST_PAGE", 10_000)
        encoded = {"use_dictionary": False, "column_encoding": {"sentences.list.element": "DELTA_BYTE_ARRAY"}}
        path = write(tmp_path / "a.parquet", {"sentences": [["a", "b"]] * 600}, **encoded)
        with pytest.raises(InputError, match="DELTA_BYTE_ARRAY"):
            list(read_ranking_lists(path))

    def test_a_footer_over_which_pyarrow_ends_the_process(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet.gz"
        path.write_bytes(base64.b85decode("".join(ABORTING)))
        reading = read_sentences(path)
        assert list(reading) == []
        assert reading.report.count(Fault.DAMAGED) == 1


class TestUnpacking:
    @pytest.fixture
    def packed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(unpacking, "LEAST", 100_000)
        plain = io.BytesIO()
        parquet.write_table(
            arrow.table({"text": ["a" * 200_000, "b"]}), plain, compression="none", use_dictionary=False
        )
        path = tmp_path / "a.parquet.xz"
        path.write_bytes(lzma.compress(plain.getvalue()))
        return path

    def test_more_than_a_hundred_times_as_much(self, packed: Path) -> None:
        with pytest.raises(InputError, match=r"a.parquet.xz: unpacks to more than .*NEARER_MAX_UNPACKED"):
            list(read_sentences(packed))

    def test_allowed(self, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NEARER_MAX_UNPACKED", "1 MB")
        assert len(list(read_sentences(packed, max_characters=300_000))) == 2
        monkeypatch.setenv("NEARER_MAX_UNPACKED", "lots")
        with pytest.raises(InputError.__mro__[1], match="NEARER_MAX_UNPACKED: 'lots' is not a size"):
            list(read_sentences(packed))

    def test_a_full_disk(self, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NEARER_MAX_UNPACKED", "1GB")
        monkeypatch.setattr(unpacking.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        with pytest.raises(InputError, match="make room there, or set TMPDIR"):
            list(read_sentences(packed))

    def test_a_window_of_gigabytes(self, tmp_path: Path) -> None:
        data = bytearray(lzma.compress(b"one\n", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**20, "preset": 0}]))
        assert data[16] == 16  # where the block's header says 1 MiB
        data[16] = 39  # 3 GiB
        size = (data[12] + 1) * 4
        data[12 + size - 4 : 12 + size] = zlib.crc32(bytes(data[12 : 12 + size - 4])).to_bytes(4, "little")
        path = tmp_path / "a.txt.xz"
        path.write_bytes(bytes(data))
        reading = read_sentences(path)
        assert list(reading) == []
        assert reading.report.count(Fault.DAMAGED) == 1
