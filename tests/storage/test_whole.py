"""A file is the old one or the new one, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearer.storage.whole import partial_of, whole_file, write_whole

# the process dies by the signal of the system's memory keeper at the first call of the function that is named
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from nearer.storage.whole import write_whole

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "fsync":
    os.fsync = die
else:
    Path.replace = die
write_whole(Path(sys.argv[2]), "the new content")
"""


def test_the_text_is_there_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "Grüße\nzwei\n")
    assert path.read_bytes() == "Grüße\nzwei\n".encode()
    write_whole(path, (f"{number}\n" for number in range(3)))
    assert path.read_bytes() == b"0\n1\n2\n"
    assert [found.name for found in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_killed_before_it_was_moved_the_old_content_is_whole_and_the_next_writing_is_not_in_its_way(
    tmp_path: Path, function: str
) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "the old content")
    killed = subprocess.run([sys.executable, "-c", KILLED_AT, function, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "the old content"
    assert partial_of(path).exists()
    write_whole(path, "newer")
    assert path.read_text() == "newer"
    assert not partial_of(path).exists()


def test_it_is_synced_before_it_is_moved_and_its_name_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    sync, move = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        happened.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        sync(descriptor)

    def noted_move(self: Path, target: Path) -> Path:
        happened.append(("move", target.name))
        return move(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_move)
    write_whole(tmp_path / "file.txt", "12345")
    assert happened == [("sync", ".file.txt.partial"), ("move", "file.txt"), ("sync", tmp_path.name)]


@pytest.mark.parametrize("stopped_by", [ValueError, KeyboardInterrupt])
def test_stopped_in_the_middle_the_old_content_is_whole_and_nothing_is_left(
    tmp_path: Path, stopped_by: type[BaseException]
) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "the old content")

    def parts() -> Iterator[str]:
        yield "a part"
        raise stopped_by

    with pytest.raises(stopped_by):
        write_whole(path, parts())
    assert path.read_text() == "the old content"
    assert [found.name for found in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_without_permission_the_error_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=r"file\.txt"):
            write_whole(folder / "file.txt", "text")
    finally:
        folder.chmod(0o700)


def test_where_its_folder_is_missing_or_a_folder_has_its_name_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/\.file\.txt"):
        write_whole(tmp_path / "none" / "file.txt", "text")
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError, match="taken"):
        write_whole(tmp_path / "taken", "text")
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]


def test_any_writer_can_write_into_the_place_that_is_given(tmp_path: Path) -> None:
    with whole_file(tmp_path / "bytes.bin") as partial:
        partial.write_bytes(b"\x00\x01")
        assert not (tmp_path / "bytes.bin").exists()
    assert (tmp_path / "bytes.bin").read_bytes() == b"\x00\x01"
