"""Services for a browser to visit, and its visits."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import nearer
from browser import SIZES
from nearer.encoder import Encoder
from nearer.serve.app import create_app
from nearer.serve.limits import Limits
from nearer.serve.model import Encoded, ServedModel
from nearer.serve.server import new_server, open_port
from patience import HANG, PAGE

HOSTILE = """<img src=x onerror="window.harmed = 1"><script>window.harmed = 1</script> & "soup" </li>"""
# said by the browser itself of every answer that is not a success
EXPECTED = "Failed to load resource"


def corpus() -> list[str]:
    """Sentences of the bundled pairs, and one that would like to be markup."""
    with (Path(nearer.__file__).parent / "bundled/everyday-pairs.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [HOSTILE, *list(dict.fromkeys(row[side] for row in rows for side in ("sentence1", "sentence2")))[:119]]


class Held(ServedModel):
    """A model that computes nothing while its gate is closed."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "wiki-mini")
        self.gate = threading.Event()

    def encode(self, texts: Sequence[str]) -> Encoded:
        assert self.gate.wait(HANG)
        return super().encode(texts)


@contextmanager
def serving(
    model: ServedModel,
    *,
    port: int = 0,
    limits: dict[str, Any] | None = None,
    busy_after: float | None = None,
    **options: Any,
) -> Iterator[str]:
    """The address of a service in a thread, which ends with the block. busy_after: seconds for an answer."""
    with open_port("127.0.0.1", port) as bound:
        app = create_app(model, limits=Limits(**(limits or {})), hosts={"127.0.0.1"}, **options)
        if busy_after is not None:
            app.state.service.limits = replace(app.state.service.limits, timeout=busy_after)
        started = threading.Event()
        server = new_server(app, bound, tell=lambda message: started.set())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            assert started.wait(HANG)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(HANG)
    assert not thread.is_alive()


@dataclass
class Visit:
    """A page, what went wrong on it, and the addresses it asked for."""

    page: Any
    address: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def go(self, **state: str) -> Any:
        """Opens the page as a link would."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#{urlencode(state)}")
        self.page.locator("#page, #unreached, dialog[open]").filter(visible=True).first.wait_for()
        return self.page

    @property
    def unexpected(self) -> list[str]:
        """What went wrong, less what the browser says of refusals."""
        return [words for words in self.wrong if EXPECTED not in words]

    def rows(self, within: str) -> list[tuple[str, str]]:
        """Text and score of the sentences in order."""
        parts = [self.page.locator(f"{within} .ranked {part}").all_text_contents() for part in (".text", ".score")]
        return list(zip(*parts, strict=True))


@contextmanager
def visiting(
    browser: Any, address: str, size: str = "desktop", scheme: str = "light", **options: Any
) -> Iterator[Visit]:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    context.set_default_timeout(PAGE)
    visit = Visit(context.new_page(), address)
    visit.page.on("console", lambda message: visit.wrong.append(f"{message.type}: {message.text}"))
    visit.page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    visit.page.on("dialog", lambda dialog: visit.wrong.append(dialog.message))
    visit.page.on("request", lambda request: visit.asked.append(request.url))
    yield visit
    context.close()


def settled(page: Any) -> None:
    """Returns when the open view has its answer, drawn."""
    page.locator("[role=tabpanel]:not([hidden]) .answer > *").first.wait_for()
    page.locator("[role=tabpanel][aria-busy]").first.wait_for(state="detached")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(score: float) -> str:
    return f"{score:.3f}".replace("-", "−")
