"""`nearer doctor --verify DIR` finds damage in everything that nearer writes, and says how to get back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faulty_disk import flip
from nearer.construct.construction import Construction
from nearer.doctor.findings import State
from nearer.doctor.verify import verify
from nearer.encoder import Encoder
from nearer.encoder.files import encode_file
from nearer.errors import InputError
from nearer.teachers import VectorStore
from nearer.text import read_sentences
from nearer.text.token_store import open_store
from nearer.training import train

TEXT = "".join(f"the quick brown fox jumps over a lazy dog {number}\n" for number in range(30))


@pytest.fixture(scope="module")
def written(tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, in one folder."""
    root = tmp_path_factory.mktemp("written")
    text = root / "text.txt"
    text.write_text(TEXT)
    encoder = Encoder.load(tiny_model("bert"), pooling="cls", device="cpu")
    encoder.save(root / "model")
    open_store(read_sentences(text), encoder.tokenizer, max_length=16, folder=root / "tokens")
    VectorStore(encoder, folder=root / "vectors").rows(read_sentences(text))
    encode_file(encoder, read_sentences(text), root / "encoded.npy")
    with Construction(root / "lists", {"seed": 1}) as building:
        building.add(0, {"sentences": ["a", "b"]})
        building.finish()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARER_CACHE", str(root / "cache"))
        settings = {"model": str(tiny_model("bert")), "pooling": "cls", "max_steps": 2, "batch_size": 8, "head": False}
        train("simcse-wiki-mini", text, out=root / "run", settings={**settings, "select_on": [], "watch_on": []})
        pytest.importorskip("faiss")
        from nearer.search import SearchIndex

        SearchIndex.build(encoder, text, root / "index")
    return root


def test_what_is_whole_is_good(written: Path) -> None:
    found = list(verify(written))
    assert {finding.state for finding in found} == {State.good}
    kinds = {finding.name for finding in found}
    assert kinds == {"checksums", "run", "index", "construction", "vector store", "vectors"}


@pytest.mark.parametrize(
    ("pattern", "way_back"),
    [
        ("model/model.safetensors", "get the model again"),
        ("tokens/*/tokens.bin", "built anew when it is needed"),
        ("vectors/*/vectors.bin", "computed anew"),
        ("vectors/*/keys.bin", "computed anew"),
        ("vectors/*/rows/*", "computed anew"),
        ("encoded.npy", "make it anew"),
        ("encoded.json", "make it anew"),
        ("lists/data.jsonl", "construct the data anew"),
        ("lists/journal.jsonl", "construct the data anew"),
        ("lists/about.json", "construct the data anew"),
        ("run/config.yaml", "start the run anew"),
        ("run/metrics.jsonl", "start the run anew"),
        ("run/checkpoints/step-*/optimiser.safetensors", "an older checkpoint"),
        ("index/vectors.bin", "build the index anew"),
        ("index/texts.bin", "build the index anew"),
        ("index/manifest.json", "build the index anew"),
    ],
)
def test_a_flipped_bit_is_found_with_the_way_back(written: Path, tmp_path: Path, pattern: str, way_back: str) -> None:
    copy = Path(shutil.copytree(written, tmp_path / "copy"))
    [path] = copy.glob(pattern)
    flip(path, 4 * path.stat().st_size)
    broken = [finding for finding in verify(copy) if finding.state is State.broken]
    assert broken
    assert all(path.name in finding.found or path.parent.name in finding.found for finding in broken)
    assert way_back in broken[0].mend


def test_one_thing_alone_and_what_is_none(written: Path, tmp_path: Path) -> None:
    assert [finding.state for finding in verify(written / "encoded.npy")] == [State.good]
    assert [finding.state for finding in verify(tmp_path)] == [State.absent]
    for name in ("lone.npy", "empty.json"):  # of others: there is nothing to compare them with
        (tmp_path / name).touch()
        assert [finding.state for finding in verify(tmp_path / name)] == [State.absent]
    with pytest.raises(InputError, match="no such file or folder"):
        list(verify(tmp_path / "nothing"))
