"""One writer at a time; a writer that was killed is in nobody's way."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearer.errors import InputError
from nearer.storage.whole import written_by_us_alone

HOLD = """
import sys
from pathlib import Path
from nearer.storage.whole import written_by_us_alone
with written_by_us_alone(Path(sys.argv[1]), Path("runs/x")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_writer_is_told_who_writes_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(InputError, match=rf"runs/x: another process is writing it \(process {holder.pid} on"),
            written_by_us_alone(lock, Path("runs/x")),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
    with written_by_us_alone(lock, Path("runs/x")):
        pass
    assert lock.exists()


def test_a_lock_beside_a_file_goes_when_it_is_done(tmp_path: Path) -> None:
    lock = tmp_path / ".vectors.npy.lock"
    with written_by_us_alone(lock, tmp_path / "vectors.npy", remove=True):
        assert lock.exists()
        with pytest.raises(InputError), written_by_us_alone(lock, tmp_path / "vectors.npy", remove=True):
            pass
        assert lock.exists()  # it is not the loser's to remove
    assert not lock.exists()


def test_where_it_cannot_be_made_the_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"runs/x: cannot be written"),
        written_by_us_alone(tmp_path / "file" / ".lock", Path("runs/x")),
    ):
        pass
