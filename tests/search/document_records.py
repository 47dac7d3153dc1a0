"""Documents with ids and titles, as records and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from search_text import sentences, write_lines


def corpus_of(count: int, seed: int = 5, start: int = 0) -> list[dict[str, str]]:
    texts = sentences(2 * count, seed)
    return [{"_id": f"d{start + n}", "title": texts[2 * n], "text": texts[2 * n + 1]} for n in range(count)]


def write_json_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    return write_lines(path, [json.dumps(record) for record in records])
