"""A corpus as a stream of windows for Ray Data, read on the machine that asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from nearer.teachers.missing_sentences import MissingSentences, marked_sentences
from nearer.text.batches import chunks
from nearer.text.hub import HUB_PREFIX
from nearer.text.reading import Reading, ReadOptions
from nearer.text.shapes import SENTENCES

_Datasource: Any = Datasource  # typed alike with and without Ray


class WindowSource(_Datasource):  # type: ignore[misc]
    """A row is a window of `size` missing sentences, so that no block is ever cut through one."""

    def __init__(self, missing: MissingSentences, size: int) -> None:
        super().__init__()
        source: Any = missing.reading.in_memory
        if source is None:
            source = missing.reading.source
            if not source.startswith(HUB_PREFIX):
                source = str(Path(source).absolute())  # the reader's working folder is another one
        count = len(missing.marked)
        # a bit for each sentence is sent, not its key: the keys come back with the vectors and are compared then
        packed = np.packbits(missing.marked)
        self.read = partial(read_windows, source, missing.reading.options, packed, count, size)

    @property
    def supports_distributed_reads(self) -> bool:
        return False  # the text need not be on other machines

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """One: it reads from front to back, as far as the workers have room."""
        return [ReadTask(self.read, BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]


def read_windows(source: Any, options: ReadOptions, packed: NDArray[np.uint8], count: int, size: int) -> Iterator[Any]:
    import pyarrow

    marked = np.unpackbits(packed, count=count).astype(bool)
    # made here: a format is told by whether the shape is that very one, and a copy that was sent is not
    reading: Reading[str] = Reading(source, SENTENCES, options)
    for window in chunks((sentence for _, sentence in marked_sentences(reading, marked)), size):
        yield pyarrow.table({"sentences": pyarrow.array([window], type=pyarrow.list_(pyarrow.large_string()))})
