"""Sentences that begin with a dash: told how to give them, and taken behind `--`."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearer.encoder import Encoder

COLD = "-5 degrees"


class TestTold:
    @pytest.mark.parametrize("sentence", [COLD, "-", "--", "--- no", "-rain"])
    def test_similarity(self, sentence: str, nearer, pooled: Path) -> None:
        outcome = nearer("similarity", pooled, "cold", sentence)
        if sentence == "-":  # is no option to begin with
            assert outcome.code == 0
            return
        assert outcome.code == 2
        if sentence == "--":  # ends the options, and a sentence is missing
            assert "Missing argument" in outcome.err
            return
        line = outcome.err.splitlines()[-1]
        assert line.startswith(("error: No such option: -", "error: No such option '-"))
        mend = 'a sentence that begins with - goes after --: nearer similarity MODEL -- "-5 degrees" "cold"'
        assert line.endswith(mend)

    def test_rank(self, nearer, pooled: Path, text: Path) -> None:
        outcome = nearer("rank", pooled, COLD, text)
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].endswith('goes after --: nearer rank MODEL -- "-5 degrees" FILE')

    @pytest.mark.parametrize("sentence", [COLD, "-kold"])
    def test_search(self, sentence: str, nearer, tmp_path: Path) -> None:
        outcome = nearer("search", "query", tmp_path, sentence)
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].endswith('goes after --: nearer search query INDEX -- "-5 degrees"')

    def test_a_slip_in_an_option_is_told_as_ever(self, nearer, pooled: Path) -> None:
        outcome = nearer("similarity", pooled, "a", "b", "--poolin", "mean")
        assert outcome.code == 2
        assert "--pooling" in outcome.err
        assert "begins with -" not in outcome.err

    def test_other_commands_are_given_no_sentences(self, nearer, pooled: Path, text: Path) -> None:
        outcome = nearer("encode", pooled, text, "-5")
        assert outcome.code == 2
        assert "begins with -" not in outcome.err


class TestTaken:
    def test_similarity(self, nearer, pooled: Path, encoder: Encoder) -> None:
        for arguments in [(pooled, "--", COLD, "cold"), ("--device", "cpu", "--", pooled, COLD, "cold")]:
            assert nearer("similarity", *arguments) == (0, f"{encoder.similarity(COLD, 'cold'):.4f}\n", "")

    def test_rank(self, nearer, pooled: Path, encoder: Encoder, text: Path) -> None:
        shown = nearer("rank", pooled, "--top", "1", "--", COLD, text)
        assert shown.code == 0
        best = encoder.rank(COLD, text.read_text().splitlines(), top=1)[0]
        assert shown.out.startswith(f"{best.score:.4f}\t")

    def test_search(self, nearer, pooled: Path, text: Path, tmp_path: Path) -> None:
        assert nearer("search", "build", pooled, text, "--out", tmp_path / "index").code == 0
        shown = nearer("search", "query", tmp_path / "index", "-k", "1", "--json", "--", COLD)
        assert shown.code == 0
        assert f'"query": "{COLD}"' in shown.out
