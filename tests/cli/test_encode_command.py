"""The command `encode`: what it writes, how, and what it says when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nearer.encoder import Encoder
from nearer.errors import SettingError


class TestEncode:
    def test_rows_are_the_lines(self, nearer, pooled: Path, encoder: Encoder, text: Path, tmp_path: Path) -> None:
        outcome = nearer("encode", pooled, text, "--out", tmp_path / "v.npy")
        assert (outcome.code, outcome.out) == (0, "")
        assert f"{tmp_path / 'v.npy'}: 4 × 32, float32" in outcome.err
        vectors = np.load(tmp_path / "v.npy")
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, encoder.encode(text.read_text().splitlines()), atol=1e-6)
        assert not (tmp_path / "v.lines.npy").exists()

    def test_dropped_lines_leave_a_file_of_line_numbers(
        self, nearer, pooled: Path, encoder: Encoder, text: Path, tmp_path: Path
    ) -> None:
        text.write_text("rain\n\nthe fox\n   \n\nrain\n", encoding="utf-8")
        outcome = nearer("encode", pooled, text, "--out", tmp_path / "v.npy")
        assert np.load(tmp_path / "v.lines.npy").tolist() == [1, 3, 6]
        np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(["rain", "the fox", "rain"]), atol=1e-6)
        assert "6 read, 3 kept, 3 dropped" in outcome.err
        assert f"{tmp_path / 'v.lines.npy'}: the line of each row" in outcome.err

    def test_the_description(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        nearer("encode", pooled, text, "--out", tmp_path / "v.npy", "--max-length", 8)
        facts = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
        assert (facts["model"], facts["pooling"], facts["max_length"]) == (str(pooled), "mean", 8)
        assert (facts["rows"], facts["dimension"], facts["normalized"]) == (4, 32, False)
        assert facts["reading"]["kept"] == 4

    def test_normalize(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        nearer("encode", pooled, text, "--out", tmp_path / "v.npy", "--normalize")
        np.testing.assert_allclose(np.linalg.norm(np.load(tmp_path / "v.npy"), axis=1), 1, atol=1e-6)

    def test_an_output_that_is_there(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        out = tmp_path / "v.npy"
        out.write_bytes(b"precious")
        assert nearer("encode", pooled, text, "--out", out).error.startswith(f"{out}: is there already")
        assert out.read_bytes() == b"precious"
        assert nearer("encode", pooled, text, "--out", out, "--force").code == 0
        assert np.load(out).shape == (4, 32)

    def test_precision_and_dtype(self, nearer, pooled: Path, encoder: Encoder, text: Path, tmp_path: Path) -> None:
        outcome = nearer(
            "encode", pooled, text, "--out", tmp_path / "v.npy", "--precision", "bf16", "--dtype", "float16"
        )
        assert f"{tmp_path / 'v.npy'}: 4 × 32, float16" in outcome.err
        vectors = np.load(tmp_path / "v.npy")
        assert vectors.dtype == np.float16
        np.testing.assert_allclose(vectors, encoder.encode(text.read_text().splitlines()), atol=0.05)
        facts = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
        assert (facts["precision"], facts["dtype"]) == ("bf16", "float16")

    @pytest.mark.parametrize(
        ("options", "devices"),
        [
            (("--processes", 2, "--device", "cpu"), ["cpu", "cpu"]),
            (("--devices", "cuda:0, cuda:1"), ["cuda:0", "cuda:1"]),
        ],
    )
    def test_several_processes(
        self, options, devices, nearer, pooled: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def found(bulk: object, devices: list[str], *rest: object) -> None:
            raise SettingError(f"asked for {devices}.")

        monkeypatch.setattr("nearer.encoder.files.encode_in_workers", found)
        assert nearer("encode", pooled, text, "--out", tmp_path / "v.npy", *options).error == f"asked for {devices}."

    @pytest.mark.parametrize("option", [("--processes", 2), ("--device", "cpu")])
    def test_devices_stand_alone(self, option: tuple[object, ...], nearer, text: Path, tmp_path: Path) -> None:
        outcome = nearer("encode", "./none", text, "--out", tmp_path / "v.npy", "--devices", "cpu,cpu", *option)
        assert outcome.error.startswith("--devices: names a process each; give neither")

    def test_another_ending(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        assert nearer("encode", pooled, text, "--out", tmp_path / "v.bin").error.endswith("must end in .npy.")

    def test_no_such_folder(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        out = tmp_path / "none" / "v.npy"
        assert nearer("encode", pooled, text, "--out", out).error == f"{out}: the folder {out.parent} does not exist."

    def test_a_folder_that_cannot_be_written(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        (tmp_path / "v.partial").mkdir()
        error = nearer("encode", pooled, text, "--out", tmp_path / "v.npy").error
        assert error == f"{tmp_path / 'v.npy'}: cannot be written (Is a directory)."
        assert not (tmp_path / "v.npy").exists()

    def test_no_such_file(self, nearer, pooled: Path, tmp_path: Path) -> None:
        missing = tmp_path / "none.txt"
        assert nearer("encode", pooled, missing, "--out", tmp_path / "v.npy").error == f"{missing}: no such file."

    def test_out_must_be_named(self, nearer, pooled: Path, text: Path) -> None:
        assert nearer("encode", pooled, text).code == 2
