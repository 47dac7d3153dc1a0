"""A changed bit is found, wherever it is, and what nobody changed is never called damaged."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from faulty_disk import flip
from nearer.errors import DamagedError, NearerError
from nearer.storage.checksums import CHECKSUMS, all_damage, check_file, check_folder, write_checksums
from nearer.storage.sealed import (
    read_sealed_json,
    sealed_bytes,
    sealed_content,
    sealed_json,
    sealed_line,
    sealed_lines,
    sealed_yaml,
    unsealed_bytes,
    unsealed_json,
    unsealed_line,
    write_sealed_json,
)

values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=6,
)
contents = some.dictionaries(some.text().filter(lambda key: key not in ("check", "checksum")), values, min_size=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "model" / "weights").write_bytes(bytes(range(256)))
    (tmp_path / "model" / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "model" / "README.md").write_text("a card")
    write_checksums(tmp_path / "model")
    return tmp_path / "model"


class TestFolder:
    def test_every_bit_of_every_file_is_covered(self, folder: Path) -> None:
        assert check_folder(folder, "get it again")
        for name in ("weights", "1_Pooling/config.json"):
            for bit in range(0, 8 * (folder / name).stat().st_size, 5):
                flip(folder / name, bit)
                with pytest.raises(DamagedError, match=f"{name}: is not what was written.*get it again"):
                    check_folder(folder, "get it again")
                flip(folder / name, bit)
        assert check_folder(folder, "get it again")

    def test_a_bit_of_the_list_itself_is_told_in_our_words_or_does_no_harm(self, folder: Path) -> None:
        """It may be in a name or in a blank, and then says nothing of the files."""
        for bit in range(8 * (folder / CHECKSUMS).stat().st_size):
            flip(folder / CHECKSUMS, bit)
            with suppress(NearerError):
                check_folder(folder, "get it again")
            flip(folder / CHECKSUMS, bit)

    def test_another_length_is_told_as_such_and_so_is_what_is_missing(self, folder: Path) -> None:
        with open(folder / "weights", "ab") as file:
            file.write(b"more")
        with pytest.raises(DamagedError, match="has 260 bytes, 256 were written"):
            check_folder(folder, "get it again")
        (folder / "weights").unlink()
        assert check_folder(folder, "get it again")  # loading says what it cannot do without
        assert list(all_damage(folder)) == [f"{folder / 'weights'}: is missing"]

    def test_a_card_may_be_edited_and_folders_from_elsewhere_have_no_checksums(self, folder: Path) -> None:
        (folder / "README.md").write_text("a better card")
        assert check_folder(folder, "")
        (folder / CHECKSUMS).unlink()
        assert not check_folder(folder, "")

    def test_one_file_is_checked_alone(self, folder: Path) -> None:
        flip(folder / "weights", 1)
        check_file(folder / "1_Pooling" / "config.json", "")
        with pytest.raises(DamagedError):
            check_file(folder / "weights", "make it anew")


class TestSealed:
    @given(contents)
    def test_what_is_sealed_comes_back(self, content: dict[str, object]) -> None:
        as_read = json.loads(json.dumps(content))
        assert unsealed_json(sealed_json(content).encode(), Path("x"), "") == as_read
        assert unsealed_line(sealed_line(content)) == as_read
        assert json.loads(sealed_line(content)).keys() == {*content, "check"}

    @given(contents, some.data())
    def test_a_flipped_bit_is_told_or_changes_nothing(self, content: dict[str, object], data: some.DataObject) -> None:
        as_read = json.loads(json.dumps(content))
        for text, read in (
            (sealed_json(content), lambda raw: unsealed_json(raw, Path("x"), "")),
            (sealed_line(content), lambda raw: unsealed_line(raw.decode())),
        ):
            raw = bytearray(text.encode())
            bit = data.draw(some.integers(0, 8 * len(raw) - 1))
            raw[bit // 8] ^= 1 << bit % 8
            try:
                found = read(bytes(raw))
            except (ValueError, DamagedError):
                continue
            # the bit was in the seal's own name: then the content is untouched, beside a key that nobody knows
            assert {key: value for key, value in found.items() if key in as_read} == as_read

    def test_bytes(self) -> None:
        assert unsealed_bytes(sealed_bytes(b"rows")) == b"rows"
        with pytest.raises(ValueError, match="checksum"):
            unsealed_bytes(b"rowT" + sealed_bytes(b"rows")[4:])

    def test_yaml(self, tmp_path: Path) -> None:
        path = tmp_path / "config.yaml"
        for text in (sealed_yaml("a: 1\nb: [2]\n"), "a: 1\nb: [2]\n"):  # the latter of an older version
            path.write_text(text)
            assert sealed_content(path) == {"a": 1, "b": [2]}
        path.write_text(sealed_yaml("a: 1\n").replace("1", "3", 1))
        with pytest.raises(DamagedError, match=r"config.yaml: is damaged.*start anew.*on purpose"):
            sealed_content(path, mend="start anew")

    def test_the_error_says_how_to_keep_a_change_that_was_made_on_purpose(self, tmp_path: Path) -> None:
        path = tmp_path / "facts.json"
        write_sealed_json(path, {"rows": 10})
        path.write_text(path.read_text().replace("10", "11"))
        with pytest.raises(DamagedError, match="then take out its last line, the checksum"):
            read_sealed_json(path, "make it anew")
        path.write_text('{"rows": 11}')
        assert read_sealed_json(path, "") == {"rows": 11}

    def test_half_a_surrogate_pair_is_kept(self, tmp_path: Path) -> None:
        write_sealed_json(tmp_path / "facts.json", {"name": "caf\udce9"})
        assert read_sealed_json(tmp_path / "facts.json", "") == {"name": "caf\udce9"}

    def test_damaged_lines_are_told_by_number(self, tmp_path: Path) -> None:
        lines = [sealed_line({"step": step}) for step in range(3)]
        (tmp_path / "lines").write_text(lines[0] + lines[1].replace("1", "7", 1) + lines[2])
        assert list(sealed_lines(tmp_path / "lines")) == [(1, {"step": 0}), (2, None), (3, {"step": 2})]
