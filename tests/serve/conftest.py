"""A service around a tiny random encoder, and clients of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from nearer.cli.main import main
from nearer.encoder import Encoder
from nearer.serve.app import create_app
from nearer.serve.limits import Limits
from nearer.serve.model import Encoded, ServedModel
from patience import HANG


@pytest.fixture(scope="session")
def encoder(tiny_model: Callable[[str], Path]) -> Encoder:
    return Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")


@pytest.fixture(scope="session")
def served(encoder: Encoder) -> ServedModel:
    return ServedModel(encoder, "tiny")


@pytest.fixture(scope="session")
def second(tiny_model: Callable[[str], Path]) -> ServedModel:
    """Another model: the same weights, pooled in another way."""
    return ServedModel(Encoder.load(tiny_model("bert"), pooling="cls", device="cpu"), "second")


class Watched(ServedModel):
    """A model that notes its batches, and computes none while its gate is closed."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "tiny")
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.batches.append(list(texts))
        self.entered.release()
        assert self.gate.wait(HANG)
        return super().encode(texts)


@pytest.fixture
def watched(encoder: Encoder) -> Watched:
    return Watched(encoder)


@pytest.fixture
def client_of() -> Iterator[Callable[..., TestClient]]:
    """A client of a new service; all end with the test, as on shutdown."""
    opened = []

    def make(model: ServedModel, **options) -> TestClient:
        limits = Limits(**options.pop("limits", {}))
        app = create_app(model, limits=limits, **options)
        client = TestClient(app, raise_server_exceptions=False)
        opened.append(client.__enter__())
        return opened[-1]

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def hurried() -> Callable[..., AbstractContextManager[None]]:
    """`with hurried(client, 0.1)`: answers must be there in so many seconds; bodies have their usual time to come."""

    @contextmanager
    def hurry(client: TestClient, seconds: float) -> Iterator[None]:
        service: Any = client.app.state.service
        usual = service.limits
        service.limits = replace(usual, timeout=seconds)
        yield
        service.limits = usual

    return hurry


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def nearer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """`nearer("serve", …)`: the exit code and what was printed."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["nearer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(scope="module")
def client(served: ServedModel) -> Iterator[TestClient]:
    """A client of a service that a file's tests share; what counts, or is set otherwise, takes `client_of`."""
    with TestClient(create_app(served), raise_server_exceptions=False) as opened:
        yield opened
