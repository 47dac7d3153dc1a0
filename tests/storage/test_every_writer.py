"""Every writer on a disk that loses what was not synced, is full at the n-th call, or flips a bit.

After whatever happens, what is read back is what was there before or what was written, as a whole; never something
else, and never an error that is not ours. Then the same writing works again. Runs and indexes have suites of their own.
"""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest
import torch

from faulty_disk import CUTS, RecordedDisk, failing, flip, in_one_line, small_files
from nearer.baselines.static_words import StaticWords
from nearer.construct.construction import Construction
from nearer.construct.start_sentences import Start, Starts, read_starts, write_starts
from nearer.encoder import Encoder
from nearer.encoder.files import EncodedFile, encode_file
from nearer.errors import NearerError
from nearer.evaluation import evaluate
from nearer.runs.checkpoints import load_checkpoint, save_checkpoint, whole_checkpoint
from nearer.runs.folder import read_scores
from nearer.teachers import RankEncoder
from nearer.teachers.vector_store import VectorStore
from nearer.text import read_ranking_lists, read_sentences
from nearer.text.token_store import open_store

SENTENCES = [f"the quick brown fox jumps over a lazy dog {number}" for number in range(40)]
MORE = [*SENTENCES, *(f"rain comes until someone has lunch {number}" for number in range(30))]


class Writer(Protocol):
    """`read` gives what is there as a value to be compared, None for nothing; a NearerError says it is damaged."""

    def write(self, folder: Path, version: int) -> None: ...
    def read(self, folder: Path) -> object: ...


class Ground(NamedTuple):
    encoder: Encoder
    text: dict[int, Path]


class Models(Writer):
    def __init__(self, ground: Ground) -> None:
        self.encoder = ground.encoder

    def write(self, folder: Path, version: int) -> None:
        with torch.no_grad():
            self.encoder.backbone.embeddings.word_embeddings.weight[0, 0] = float(version)  # type: ignore[union-attr, operator, index]
        self.encoder.save(folder / "model", overwrite=True)

    def read(self, folder: Path) -> object:
        if not (folder / "model").exists():
            return None
        loaded = Encoder.load(folder / "model", device="cpu")
        return [float(weight.detach().double().sum()) for weight in loaded.parameters()], loaded.settings


class RankModels(Writer):
    def __init__(self, ground: Ground) -> None:
        self.models = {n: RankEncoder.build(ground.encoder, SENTENCES[: 10 * n]) for n in (1, 2)}

    def write(self, folder: Path, version: int) -> None:
        self.models[version].save(folder / "model", overwrite=True)

    def read(self, folder: Path) -> object:
        return RankEncoder.load(folder / "model").corpus.tobytes() if (folder / "model").exists() else None


class Words(Writer):
    def __init__(self, ground: Ground) -> None:
        pass

    def write(self, folder: Path, version: int) -> None:
        vectors = np.full((2, 4), version, dtype=np.float32)
        StaticWords({"rain": 0, "lunch": 1}, vectors, name="words").save(folder / "words", overwrite=True)

    def read(self, folder: Path) -> object:
        if not (folder / "words").exists():
            return None
        loaded = StaticWords.load(folder / "words")
        return loaded.vectors.tobytes(), sorted(loaded.words), loaded.max_words


class Tokens(Writer):
    """Kept for every text; read by asking for them again, which builds what is damaged."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def write(self, folder: Path, version: int) -> None:
        self._open(folder, version)

    def _open(self, folder: Path, version: int) -> tuple[list[int], list[int]]:
        reading = read_sentences(self.ground.text[version])
        store = open_store(reading, self.ground.encoder.tokenizer, max_length=16, folder=folder / "tokens")
        return store.tokens.tolist(), store.offsets.tolist()

    def read(self, folder: Path) -> object:
        return [self._open(folder, version) for version in (1, 2)]


class Vectors(Writer):
    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def _store(self, folder: Path) -> VectorStore:
        return VectorStore(self.ground.encoder, folder=folder / "vectors")

    def write(self, folder: Path, version: int) -> None:
        self._store(folder).rows(read_sentences(self.ground.text[version]))

    def read(self, folder: Path) -> object:
        store = self._store(folder)
        found = []
        for version in (1, 2):
            rows = store.rows(read_sentences(self.ground.text[version]))
            found.append(store.vectors()[rows].tobytes())
        return found


class Encoded(Writer):
    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    def write(self, folder: Path, version: int) -> None:
        reading = read_sentences(self.ground.text[version])
        encode_file(self.ground.encoder, reading, folder / "v.npy", window=16, overwrite=True)

    def read(self, folder: Path) -> object:
        if not (folder / "v.json").exists():  # said last: without it, nothing was reported done
            return None
        path = folder / "v.npy"
        return EncodedFile(path, path.with_suffix(".json"), None, 0, 0, None).open().tobytes()  # type: ignore[arg-type]


class Constructed(Writer):
    """Version 1 is half of it, as it was before an interruption."""

    def __init__(self, ground: Ground) -> None:
        pass

    def write(self, folder: Path, version: int) -> None:
        with Construction(folder / "lists", {"seed": 1}) as building:
            for number in range(0, 3 if version == 1 else 6):
                if number not in building.done:
                    building.add(number, {"sentences": [SENTENCES[number], "x"]})
            if version == 2:
                building.finish()

    def read(self, folder: Path) -> object:
        if not (folder / "lists" / "about.json").exists():
            return None
        if (folder / "lists" / "data.jsonl").exists():
            return [record.sentences for record in read_ranking_lists(folder / "lists" / "data.jsonl")]
        with Construction(folder / "lists", {"seed": 1}) as building:
            return list(building.records())


class Chosen(Writer):
    def __init__(self, ground: Ground) -> None:
        pass

    def write(self, folder: Path, version: int) -> None:
        members = [Start(number, sentence, number, version) for number, sentence in enumerate(SENTENCES[:5])]
        write_starts(Starts(members, version), folder / "starts.jsonl")

    def read(self, folder: Path) -> object:
        return read_starts(folder / "starts.jsonl") if (folder / "starts.jsonl").exists() else None


class Scores(Writer):
    def __init__(self, ground: Ground) -> None:
        ground.text[1].with_suffix(".tsv").write_text("rain\tlunch\t1\nrain\train comes\t3\nfox\tdog\t2\n")
        self.results = {1: evaluate(ground.encoder, str(ground.text[1].with_suffix(".tsv")))}
        self.results[2] = evaluate(ground.encoder, "everyday")

    def write(self, folder: Path, version: int) -> None:
        self.results[version].write_json(folder / "scores.json")

    def read(self, folder: Path) -> object:
        return read_scores(folder / "scores.json") if (folder / "scores.json").exists() else None


class Checkpoints(Writer):
    """Of a model that is one number; the newest whole one counts."""

    def __init__(self, ground: Ground) -> None:
        pass

    def write(self, folder: Path, version: int) -> None:
        model, optimiser = self._model()
        with torch.no_grad():
            model.weight.fill_(version)
        model(torch.ones(1, 1)).sum().backward()
        optimiser.step()
        save_checkpoint(folder / "checkpoints", version, model, optimiser, {"best_step": None})

    def read(self, folder: Path) -> object:
        found, _ = whole_checkpoint(folder / "checkpoints")
        if found is None:
            return None
        model, optimiser = self._model()
        state = load_checkpoint(found, model, optimiser)
        return state, float(model.weight), [float(value) for value in optimiser.state[model.weight].values()]

    def _model(self) -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        model = torch.nn.Linear(1, 1, bias=False)
        return model, torch.optim.AdamW(model.parameters())


WRITERS = (
    Models, RankModels, Words, Tokens, Vectors, Encoded, Constructed, Chosen, Scores, Checkpoints
)  # fmt: skip
# How many moments, calls and bits are tried of each; the slow test tries all moments and calls, and 50 bits a writer
TRIED = 3


@pytest.fixture
def ground(tiny_model: Callable[[str], Path], tmp_path: Path) -> Ground:
    texts = {1: tmp_path / "one.txt", 2: tmp_path / "two.txt"}
    texts[1].write_text("\n".join(SENTENCES) + "\n")
    texts[2].write_text("\n".join(MORE) + "\n")
    return Ground(Encoder.load(tiny_model("bert"), pooling="cls", device="cpu"), texts)


def chosen(count: int, tried: int | None) -> Iterator[int]:
    """All, or some of them: the last ones always, where names change."""
    if tried is None or tried >= count:
        yield from range(count)
    else:
        yield from sorted({*random.Random(count).sample(range(count), tried - 2), count - 2, count - 1})


class Trial:
    """One writer: a first version is there, a second is being written when something happens."""

    def __init__(self, kind: type[Any], ground: Ground, tmp_path: Path) -> None:
        self.writer: Writer = kind(ground)
        self.folder, self.found = tmp_path / "disk", tmp_path / "found"
        self.folder.mkdir()
        self.writer.write(self.folder, 1)
        self.first = self._copy(self.folder, tmp_path / "first")
        self.before = self.writer.read(self._copy(self.folder, self.found))
        self.recorded = RecordedDisk(self.folder)
        with self.recorded:
            self.writer.write(self.folder, 2)
        self.last = self._copy(self.folder, tmp_path / "last")
        self.after = self.writer.read(self._copy(self.folder, self.found))

    def _copy(self, folder: Path, to: Path) -> Path:
        shutil.rmtree(to, ignore_errors=True)
        return Path(shutil.copytree(folder, to))

    def _is_whole(self, *, mid_way: bool) -> None:
        """What is found is one of the versions (or, of what is built piece by piece, a beginning); then it goes on."""
        found = self.writer.read(self.found)
        if isinstance(self.writer, Constructed) and isinstance(found, list) and mid_way:
            assert len(found) >= len(self.before)  # type: ignore[arg-type]
        elif isinstance(self.writer, Encoded) and found is None:
            pass  # asked to overwrite, and not yet reported done
        else:
            assert found in (self.before, self.after)
        self.writer.write(self.found, 2)
        assert self.writer.read(self.found) == self.after

    def power_cuts(self, tried: int | None) -> int:
        cuts = 0
        for moment in chosen(len(self.recorded.moments), tried):
            for cut in CUTS:
                self.recorded.after_power_cut(moment, cut, self.found)
                self._is_whole(mid_way=True)
                cuts += 1
        self.recorded.after_power_cut(len(self.recorded.moments) - 1, "synced", self.found)
        assert self.writer.read(self.found) == self.after, "it was reported done"
        return cuts

    def full_disks(self, tried: int | None) -> int:
        self._copy(self.first, self.found)
        with failing(self.found, at=10**9) as calls:
            self.writer.write(self.found, 2)
        for number in chosen(len(calls), tried):
            for error in (errno.ENOSPC, errno.EIO):
                self._copy(self.first, self.found)
                with failing(self.found, at=number, error=error):
                    self._fails()
                self._is_whole(mid_way=True)
        for largest in (10, 300, 5000):
            self._copy(self.first, self.found)
            with small_files(largest):
                self._fails()
            self._is_whole(mid_way=True)
        return 2 * len(calls)

    def _fails(self) -> None:
        """In one line of ours; or not at all, where it could do without what failed."""
        with suppress(NearerError):
            in_one_line(lambda: self.writer.write(self.found, 2))

    def flipped_bits(self, tried: int) -> tuple[int, int]:
        """How many bits were flipped, and how many of them told; the others changed nothing."""
        draw = random.Random(7)
        files = sorted(path.relative_to(self.last) for path in self.last.rglob("*") if path.is_file())
        files = [path for path in files if not path.name.endswith("lock") and path.name != "README.md"]
        told = 0
        for number in range(tried):
            self._copy(self.last, self.found)
            file = self.found / files[number % len(files)]
            bits = 8 * file.stat().st_size
            if not bits:
                continue
            flip(file, draw.randrange(bits))
            try:
                found = in_one_line(lambda: self.writer.read(self.found))
            except NearerError:
                told += 1
                continue
            if isinstance(self.writer, Checkpoints):
                assert found in (self.before, self.after), file  # an older one is taken
            else:
                assert found == self.after, file
        return tried, told


@pytest.mark.filterwarnings("ignore::nearer.errors.ModelWarning")
@pytest.mark.parametrize("kind", WRITERS, ids=lambda kind: kind.__name__.lower())
class TestEveryWriter:
    def test_faults(self, kind: type[Any], ground: Ground, tmp_path: Path) -> None:
        trial = Trial(kind, ground, tmp_path)
        assert trial.power_cuts(TRIED) > 0
        assert trial.full_disks(TRIED) > 0
        flipped, _ = trial.flipped_bits(2 * TRIED)
        assert flipped == 2 * TRIED

    @pytest.mark.slow
    def test_all_faults(self, kind: type[Any], ground: Ground, tmp_path: Path) -> None:
        trial = Trial(kind, ground, tmp_path)
        cuts, full, (flipped, told) = trial.power_cuts(None), trial.full_disks(None), trial.flipped_bits(50)
        print(f"\n{kind.__name__}: {cuts} power cuts, {full} full disks, {flipped} flipped bits ({told} told)")
