"""The page's files: fixed names, strict headers, no key, and no way to any other file."""

from __future__ import annotations

import pytest

from nearer.errors import InputError
from nearer.serve.service_endpoints import FOLDER, read_page

FILES = sorted(file.name for file in FOLDER.iterdir() if file.is_file())
PATHS = ["/" if name == "index.html" else f"/page/{name}" for name in FILES]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.fixture
def locked(client_of, served):
    return client_of(served, api_keys="secret")


@pytest.mark.parametrize(("name", "path"), list(zip(FILES, PATHS, strict=True)))
def test_open_to_all(locked, name: str, path: str) -> None:
    answer = locked.get(path)
    assert answer.status_code == 200
    assert answer.content == (FOLDER / name).read_bytes()
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
    if (ending := name.rpartition(".")[2]) in kinds:
        assert answer.headers["content-type"] == f"{kinds[ending]}; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"


def test_the_page_is_there() -> None:
    assert {"/", "/page/app.js", "/page/style.css"} <= set(read_page())


@pytest.mark.parametrize(
    "path",
    ["/map", "/geometry", "/v1/models", "/metrics", "/openapi.json", "/page", "/page/", "/page/index.html", "/page/x"],
)
def test_the_key_guards_all_else(locked, path: str) -> None:
    assert locked.get(path).status_code == 401


def test_the_key_guards_what_is_asked(locked) -> None:
    for path in ("/v1/embeddings", "/v1/search", "/map/place"):
        assert locked.post(path, json={"query": "a"}).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/..%5capp.py",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/app.js%00.html",
        "/page/app.js/",
        "/page/.",
        "/page/APP.JS",
        "/page/app.py",
        "//app.js",
    ],
)
def test_no_other_file(client, path: str) -> None:
    """Asked as it stands: a client that cleans the path would ask for something else."""
    import anyio

    sent: list[dict] = []

    async def ask() -> None:
        from urllib.parse import unquote

        scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "headers": []}

        async def receive() -> dict:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict) -> None:
            sent.append(message)

        await client.app({**scope, "query_string": b"", "scheme": "http", "server": ("t", 80)}, receive, send)

    anyio.run(ask)
    body = b"".join(message.get("body", b"") for message in sent)
    assert sent[0]["status"] in (307, 404)
    if sent[0]["status"] == 307:  # only a slash too many, and only to a file of the page
        (target,) = [value for name, value in sent[0]["headers"] if name == b"location"]
        assert target.decode().removeprefix("http://t") in PATHS
    assert b"import" not in body


def test_a_damaged_installation(tmp_path) -> None:
    with pytest.raises(InputError, match=r"the page \(index.html\) is missing; install nearer anew"):
        read_page(tmp_path / "nowhere")


def test_hidden_files_and_folders_are_left_out(tmp_path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("index.html", "a.js", ".hidden", "inner/b.js"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert read_page(tmp_path) == {"/": (b"index.html", "text/html"), "/page/a.js": (b"a.js", "text/javascript")}
