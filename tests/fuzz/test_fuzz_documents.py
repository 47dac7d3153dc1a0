"""Documents, scored lists, templates and set-ups: whatever is in them, what can be used, or an error in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged_bytes, swapped_values, tries

from nearer.adaptation.documents import read_documents
from nearer.adaptation.passages import split_passages
from nearer.encoder import Encoder
from nearer.errors import NearerError
from nearer.search.setup import SearchSetup, read_setup
from nearer.text.reading import ReadOptions
from nearer.text.scored_lists import ScoredLists
from small_pdf import make_pdf

TEXT = "Rain falls on the coast of Norway all through the year. In Bergen it rains on two days of three."
DOCUMENTS = {
    "md": f"---\ntitle: Weather\n---\n# Weather\n\n{TEXT}\n\n## Snow\n\n- one\n\n| a |\n|---|\n\n```py\nx = 1\n```\n",
    "html": (
        f"<!doctype html><html><head><title>Wind</title><script>x<y</script></head><body><nav>Home</nav><main><h1>Wind"
        f"</h1><p>{TEXT} &amp; &#128512; <b>more</p><ul><li>one<li>two</ul><pre>a = 1</pre></main></body></html>"
    ),
    "txt": f"The coast\n\n{TEXT}\n\n{TEXT[::-1]}\n",
    "csv": f'id,title,text\n1,Fog,"{TEXT}"\n2,Mist,"thin ""fog"""\n',
    "jsonl": f'{{"_id": "a", "title": "Fog", "text": "{TEXT}"}}\n{{"_id": "b", "title": null, "text": ["no"]}}\n',
    "json": f'[{{"_id": "a", "title": "Fog", "text": "{TEXT}"}}, {{"_id": "a", "text": "again"}}]',
    "py": f'"""{TEXT}"""\n\n\ndef rain(days):\n    """Say how often it rains."""\n    return days * 2 / 3\n',
}


PDF = make_pdf([[TEXT, TEXT[::-1]], ["second page"]], title="Rain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz-documents")


def read_and_split(path: Path, **options: Any) -> None:
    with suppress(NearerError):
        found = read_documents(path, **options)
        account = found.account
        assert account.kept + account.empty + len(account.duplicate_of) == account.read
        assert len({document.id for document in found.documents}) == len(found.documents) == account.kept
        json.dumps(account.to_dict())
        str(account)
        for document in found.documents:
            assert document.text.strip()
            assert all(passage.text.strip() for passage in split_passages(document))


@pytest.mark.parametrize("kind", DOCUMENTS)
@tries(40)
@given(draw=st.data())
def test_documents(kind: str, folder: Path, bounded: Any, draw: st.DataObject) -> None:
    path = folder / f"a.{kind}"
    path.write_bytes(draw.draw(damaged_bytes(DOCUMENTS[kind].encode())))
    txt = draw.draw(st.sampled_from(["auto", "file", "line"]))
    encoding = draw.draw(st.sampled_from(["utf-8", "latin-1", "utf-16"]))
    columns = draw.draw(st.sampled_from([None, None, {"text": "title"}, {"text": "text", "id": "id"}]))
    with bounded():
        read_and_split(path, txt=txt, encoding=encoding, columns=columns)


@tries(30)
@given(draw=st.data())
def test_pdf(folder: Path, bounded: Any, draw: st.DataObject) -> None:
    path = folder / "a.pdf"
    path.write_bytes(draw.draw(damaged_bytes(PDF)))
    with bounded():
        read_and_split(path)


PASSAGES = '{"_id": "p1", "text": "It rains."}\n{"_id": "p2", "text": "A man is eating."}\n'
QUERIES = '{"_id": "q1", "text": "Why is it wet?"}\n'
LISTS = '{"query": "q1", "passages": ["p1", "p2"], "scores": [4.5, -2.0]}\n'


@tries(60)
@given(draw=st.data())
def test_scored_lists(folder: Path, bounded: Any, draw: st.DataObject) -> None:
    files = {"passages.jsonl": PASSAGES, "queries.jsonl": QUERIES, "lists.jsonl": LISTS}
    lists = folder / "lists"
    lists.mkdir(exist_ok=True)
    damaged = draw.draw(st.sampled_from(sorted(files)))
    for name, text in files.items():
        (lists / name).write_bytes(draw.draw(damaged_bytes(text.encode())) if name == damaged else text.encode())
    with bounded(), suppress(NearerError):
        reading = ScoredLists(lists, ReadOptions())
        records = list(reading.located())
        found = reading.lists
        assert len(found.starts) == len(records) + 1
        assert len(found.passages) == len(found.scores) == found.starts[-1]
        str(reading.report)


@tries(60)
@given(text=st.text(max_size=40), where=st.integers(0, 40))
def test_templates(tiny_model: Callable[[str], Path], bounded: Any, text: str, where: int) -> None:
    template = f"{text[:where]}{{sentence}}{text[where:]}"
    with bounded(), suppress(NearerError):
        encoder = Encoder.load(tiny_model("bert"), template=template, device="cpu")
        assert encoder.encode(["a man", ""]).shape == (2, encoder.dimension)


SETUP = {
    "lexical_weight": 0.3,
    "reranker": {"model": "cross", "weight": 1.0, "candidates": 50},
    "query_prompt": "q",
    "passage_prompt": None,
    "candidates": 100,
}


@tries(60)
@given(draw=st.data())
def test_set_ups(folder: Path, bounded: Any, draw: st.DataObject) -> None:
    (folder / "nearer.json").write_text(json.dumps(draw.draw(swapped_values({"format": 1, "search": SETUP}))))
    with bounded(), suppress(NearerError):
        found = read_setup(folder)
        assert found is None or isinstance(found, SearchSetup)
        if found is not None:
            found.describe()
            found.changed(lexical_weight=0.5)
