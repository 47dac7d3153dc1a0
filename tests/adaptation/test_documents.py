"""Reading collections: files of all kinds become documents, and everything is accounted for."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nearer.adaptation import document_files
from nearer.adaptation.documents import Document, Documents, read_documents, strip_title
from nearer.errors import InputError, SettingError

PROSE = "Rain falls on the coast of Norway all through the year. In Bergen it rains on two days of three."


def by_id(found: Documents) -> dict[str, Document]:
    return {document.id: document for document in found.documents}


def test_a_folder_of_many_kinds(tmp_path: Path) -> None:
    (tmp_path / "sub/.git").mkdir(parents=True)
    (tmp_path / "a.md").write_text(f"---\ntitle: Weather\n---\n# Weather\n\n{PROSE}\n\n## Snow\n\nIt snows in Oslo.\n")
    (tmp_path / "sub/b.txt").write_text(f"The coast\n\n{PROSE} More of it.\n")
    (tmp_path / "sub/c.html").write_text(
        "<html><head><title>Wind - Site</title><style>p {}</style></head><body><nav><a href=x>Home</a></nav>"
        "<main><h1>Wind</h1><p>It blows &amp; blows.</p><pre>a = 1\n  b</pre></main>"
        "<footer>© 2020</footer></body></html>"
    )
    (tmp_path / "d.csv").write_text("headline,body\nFog,Fog is a cloud.\nMist,Mist is thin fog.\n")
    (tmp_path / ".hidden.md").write_text("no")
    (tmp_path / "sub/.git/x.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "binary.txt").write_bytes(b"a\x00b" * 50)
    found = read_documents(tmp_path)
    documents = by_id(found)
    assert documents["a.md"] == Document(
        "a.md", "Weather", f"{PROSE}\n\n## Snow\n\nIt snows in Oslo.", str(tmp_path / "a.md")
    )
    assert (documents["sub/b.txt"].title, documents["sub/b.txt"].text) == ("The coast", f"{PROSE} More of it.")
    assert (documents["sub/c.html"].title, documents["sub/c.html"].text) == (
        "Wind",
        "It blows & blows.\n\n```\na = 1\n  b\n```",
    )
    assert documents["d.csv:2"] == Document("d.csv:2", "Fog", "Fog is a cloud.", f"{tmp_path / 'd.csv'}:2")
    assert len(documents) == 5
    account = found.account
    assert account.skipped == {"hidden folders": 1, "hidden files": 1, "files of another kind (.png)": 1}
    assert {Path(file.path).name: file.fault for file in account.unreadable} == {"binary.txt": "a binary file, no text"}
    table = next(file for file in account.files if file.kind == "csv")
    assert table.notes == ["line 1 is the header; columns used: body, headline"]
    assert "not read" in str(account)
    assert json.loads(json.dumps(account.to_dict()))["kept"] == 5


def test_beir_and_compression(tmp_path: Path) -> None:
    rows = [
        {"_id": "q1", "title": "a short title .", "text": "A short title . the flow is laminar ."},
        {"_id": "q2", "title": "", "text": "  "},
        {"_id": "q3", "title": "Other", "text": "Nothing of it."},
    ]
    with lzma.open(tmp_path / "corpus.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    with gzip.open(tmp_path / "more.json.gz", "wt") as file:
        json.dump({"version": 1, "items": [{"id": 7, "content": "<p>One &lt; two.</p>"}]}, file)
    found = read_documents([tmp_path / "corpus.jsonl.xz", tmp_path / "more.json.gz"])
    assert [(d.id, d.title, d.text) for d in found.documents] == [
        ("q1", "a short title .", "the flow is laminar ."),
        ("q3", "Other", "Nothing of it."),
        ("7", "", "One < two."),
    ]
    account = found.account
    assert (account.read, account.kept, account.empty, account.titles_stripped) == (4, 3, 1, 1)


def test_columns_are_named_or_told(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("ref\twords\tname\n1\tIt rains.\tRain\n2\tIt snows.\tSnow\n")
    with pytest.raises(InputError, match=r"t\.tsv: cannot tell which columns make a document; found 'ref', 'words'"):
        read_documents(path)
    with pytest.raises(InputError, match=r"name them with columns \(text=…,title=…\)"):
        read_documents(path)
    found = read_documents(path, columns={"text": "words", "id": "ref"})
    assert [(d.id, d.title, d.text) for d in found.documents] == [
        ("1", "Rain", "It rains."),
        ("2", "Snow", "It snows."),
    ]
    with pytest.raises(InputError, match="nowhere"):
        read_documents(path, columns={"text": "nowhere"})
    with pytest.raises(SettingError, match="'txet' is not one of text, title and id"):
        read_documents(path, columns={"txet": "words"})


def test_a_document_a_line_or_a_file(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("It rains.\nIt snows in the north.\nThe wind blows!\n")
    found = read_documents(lines)
    assert [d.id for d in found.documents] == ["lines.txt:1", "lines.txt:2", "lines.txt:3"]
    assert "one document a line" in str(found.account)
    assert len(read_documents(lines, txt="file")) == 1
    wrapped = tmp_path / "wrapped.txt"
    wrapped.write_text("It rains on the coast and it\nsnows in the north, where\nthe wind blows all day and\nnight.\n")
    assert len(read_documents(wrapped)) == 1
    assert len(read_documents(wrapped, txt="line")) == 4


LINES = [f"Line {n} says that {n * n} is a square, and no other line does." for n in range(40)]


class TestLargeFiles:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(document_files, "LARGEST", 300)

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
    @pytest.mark.parametrize("rule", ["auto", "line"])
    def test_a_document_a_line_may_be_of_any_size(self, tmp_path: Path, end: str, rule: Any) -> None:
        (tmp_path / "lines.txt").write_bytes(end.join([*LINES, "café"]).encode())
        found = read_documents(tmp_path / "lines.txt", txt="line" if end == "\n\n" else rule)
        assert [document.text for document in found.documents] == [*LINES, "café"]
        numbers = [int(document.id.rpartition(":")[2]) for document in found.documents]
        assert numbers == list(range(1, 1 + 41 * len(end.replace("\r", "")), len(end.replace("\r", ""))))

    def test_what_is_one_document_is_refused_with_the_mend(self, tmp_path: Path) -> None:
        (tmp_path / "whole.txt").write_text("\n".join(LINES))
        (tmp_path / "line.txt").write_text("word " * 100)
        (tmp_path / "wide.txt").write_bytes("\n".join(LINES).encode("utf-16"))
        (tmp_path / "good.txt").write_text(PROSE)
        for rule, refused in (("file", {"whole.txt", "line.txt", "wide.txt"}), ("line", {"line.txt", "wide.txt"})):
            told = read_documents(tmp_path, txt=rule).account.to_dict()["unreadable"]
            assert {Path(path).name for path in told} == refused
            assert all("too much for one document; cut it" in each and "--txt line" in each for each in told.values())


def test_encodings(tmp_path: Path) -> None:
    text = "Der Regen fällt in Zürich über den Dächern.\n\nEr hört nicht auf.\n"
    (tmp_path / "utf16.txt").write_bytes(text.replace("Zürich", "Bern").encode("utf-16"))
    (tmp_path / "western.txt").write_bytes(text.encode("cp1252"))
    (tmp_path / "russian.txt").write_bytes("Дождь идёт весь день. ".encode("cp1251") * 9)
    found = read_documents(tmp_path, near_duplicates=False)
    assert [d.text.split()[4] for d in found.documents] == ["Bern", "Zürich"]
    assert "cp1252" in found.account.files[2].notes[0]
    assert "name its encoding" in found.account.unreadable[0].fault
    [russian] = read_documents(tmp_path / "russian.txt", encoding="cp1251", txt="file").documents
    assert russian.text.startswith("Дождь идёт")
    with pytest.raises(SettingError, match="encoding"):
        read_documents(tmp_path, encoding="latin-15x")


def test_duplicates_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [PROSE, f"  {PROSE.upper()} ", PROSE.replace("Norway", "Sweden"), "Another text."]
    (tmp_path / "d.jsonl").write_text(
        "".join(json.dumps({"id": f"d{n}", "text": t}) + "\n" for n, t in enumerate(rows))
    )
    found = read_documents(tmp_path / "d.jsonl")
    assert [d.id for d in found.documents] == ["d0", "d2", "d3"]
    assert found.account.duplicate_of == {"d1": "d0"}
    assert found.account.read == found.account.kept + found.account.empty + len(found.account.duplicate_of)


def test_ids_that_two_documents_have(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": f"Text {name}."}) + "\n")
    found = read_documents(tmp_path)
    assert [d.id for d in found.documents] == ["1", f"{tmp_path / 'b.jsonl'}:1"]
    assert found.account.renamed == 1


def test_what_is_shared_by_pages_is_cut_out(tmp_path: Path) -> None:
    licence = "You may use this page for any purpose as long as you name us as its source, in large letters."
    for number, animal in enumerate(("wolf", "bear", "lynx", "fox", "deer", "elk", "hare", "owl")):
        body = f"Page {number} of 8\n\nThe {animal} lives here.\n\n{licence}\n"
        (tmp_path / f"{number}.md").write_text(f"# Animal {number}\n\n{body}")
    found = read_documents(tmp_path)
    assert found.documents[1].text == "The bear lives here."
    assert found.account.boilerplate.blocks == Counter({"Page 0 of 0": 8, licence: 8})
    assert "8 documents" in str(found.account)
    assert licence in read_documents(tmp_path, boilerplate=False).documents[0].text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no document could be read"),
        ("   \n \n", "1 without text"),
    ],
)
def test_nothing_in_it(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(InputError, match=said):
        read_documents(tmp_path)


def test_the_account_names_a_few_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It rains.")
    for number in range(7):
        (tmp_path / f"x.{'abcdefg'[number] * 3}").write_text("")
        (tmp_path / f"{number}.json").write_text("{")
    told = str(read_documents(tmp_path).account)
    assert told.count("\n  not read: ") == 6
    assert "not read: 2 more files" in told
    assert "skipped: 2 of 2 other kinds" in told


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        read_documents(tmp_path / "none")
    with pytest.raises(InputError, match="no file or folder is named"):
        read_documents([])
    with pytest.raises(InputError, match="no document could be read"):
        read_documents(tmp_path)


def test_one_huge_line(tmp_path: Path) -> None:
    (tmp_path / "huge.txt").write_text("word " * 2_000_000)
    [document] = read_documents(tmp_path / "huge.txt").documents
    assert len(document.text) == 9_999_999


@pytest.mark.parametrize(
    ("title", "text", "left"),
    [
        ("", "It rains.", "It rains."),
        ("Rain", "Rain\n\nIt falls.", "It falls."),
        ("rain in  Oslo", "Rain in Oslo. It falls.", "It falls."),
        ("rain in Oslo .", "rain in oslo . it falls .", "it falls ."),
        ("Rain", "Rain falls.", "Rain falls."),
        ("Rain in Oslo", "Rain in Oslofjord falls.", "Rain in Oslofjord falls."),
        ("Rain in Oslo", "It falls.", "It falls."),
        ("İstanbul", "İstanbul'da yağmur.", "İstanbul'da yağmur."),
    ],
)
def test_titles_are_cut_off_the_text(title: str, text: str, left: str) -> None:
    assert strip_title(title, text) == (left, left != text)
