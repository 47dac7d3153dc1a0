"""Numbers as people write and read them."""

from __future__ import annotations

import pytest

from nearer.errors import SettingError
from nearer.units import as_bytes, as_seconds, counts


def test_counts() -> None:
    assert counts("64, 1k,10K,1m,64", "--sizes") == [64, 1_000, 10_000, 1_000_000]
    for wrong in ("", "many", "0", "-1", "1g", "1.5k", "64,"):
        with pytest.raises(SettingError, match=r"--sizes: .* is not a number such as"):
            counts(wrong, "--sizes")


def test_units() -> None:
    assert [as_seconds(value) for value in (None, 0.0042, 12.34, 150.0)] == ["", "4.20 ms", "12.3 s", "2.5 min"]
    assert [as_bytes(value) for value in (None, 2**20, 3 * 2**29)] == ["", "1 MiB", "1.50 GiB"]
