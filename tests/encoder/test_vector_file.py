"""A NumPy file that grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nearer.encoder.workers import GrowingFile, _header
from nearer.errors import InputError


def growing(folder: Path, dtype: str = "float32", row: tuple[int, ...] = (3,)) -> GrowingFile:
    return GrowingFile(folder / "v.npy", folder / "v.partial", dtype, row)


@pytest.mark.parametrize(("dtype", "row"), [("float32", (3,)), ("float16", (384,)), ("int64", ())])
def test_it_is_the_file_that_numpy_writes(dtype: str, row: tuple[int, ...], tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(1234, *row)).astype(dtype)
    with growing(tmp_path, dtype, row) as file:
        for start in range(0, len(rows), 500):
            file.append(rows[start : start + 500])
        file.finish(len(rows))
    np.save(tmp_path / "expected.npy", rows)
    assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", mmap_mode="r"), rows)


@pytest.mark.parametrize("rows", [1, 10**6, 10**12])
def test_the_header_is_as_long_for_any_number_of_rows(rows: int) -> None:
    assert len(_header(rows, (384,), np.dtype("float16"))) == len(_header(0, (384,), np.dtype("float16")))


def test_rows_may_come_in_any_order_and_from_others(tmp_path: Path) -> None:
    with growing(tmp_path) as file:
        with file.for_another_process() as other:
            other.write(2, np.full((2, 3), 2.0))
        file.write(0, np.full((2, 3), 1.0))
        file.finish(4)
    assert np.load(tmp_path / "v.npy")[:, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_of_a_file_that_was_not_finished(error: type[BaseException], tmp_path: Path) -> None:
    def leave_early() -> None:
        with growing(tmp_path) as file:
            file.append(np.zeros((5, 3)))
            assert (tmp_path / "v.partial").exists()
            raise error

    with pytest.raises(error):
        leave_early()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here to stand for a full disk")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.partial").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"v.npy: cannot be written \(No space left"), growing(tmp_path) as file:
        file.append(np.zeros((5, 3)))
