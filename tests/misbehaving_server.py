"""A small real server with OpenAI's chat API on loopback, which misbehaves as a test asks it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from patience import HANG

Reply = dict[str, Any] | tuple[int, str] | tuple[int, str, dict[str, str]] | str
Rule = Callable[[dict[str, Any], int], Reply]  # the request's body, how often it has come; a str is a special trick


def completion(text: str | None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": {"completion_tokens": 3}, **more}


def echo(body: dict[str, Any]) -> dict[str, Any]:
    """An answer that follows from the prompt and the seed."""
    return completion(f"{body['messages'][-1]['content']} ({body.get('seed', 'greedy')})")


class ChatServer:
    """seen: bodies of requests; most: how many were answered at the same time; paths, headers: of all requests."""

    def __init__(self, rule: Rule, models: Reply | list[str]) -> None:
        self.rule = rule
        self.models = {"data": [{"id": name} for name in models]} if isinstance(models, list) else models
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.url = ""


class _Patient(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # connections that wait: none is to be lost but those that a test wants lost


@contextmanager
def serving(rule: Rule = lambda body, _: echo(body), models: Reply | list[str] | None = None) -> Iterator[ChatServer]:
    server = ChatServer(rule, ["tiny"] if models is None else models)
    http = _Patient(("127.0.0.1", 0), _handler(server))
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._note()
            self._send(server.models)

        def do_POST(self) -> None:
            self._note()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                times = sum(one == body for one in server.seen)
                server.seen.append(body)
                server.now += 1
                server.most = max(server.most, server.now)
            try:
                self._send(server.rule(body, times))
            finally:
                with server.lock:
                    server.now -= 1

        def _note(self) -> None:
            with server.lock:
                server.paths.append(self.path)
                server.headers.append(dict(self.headers))

        def _send(self, reply: Any) -> None:
            if reply == "hang up":
                self.close_connection = True
                self.connection.close()
                return
            if reply == "never":
                server.ended.wait()
                self.close_connection = True
                return
            if isinstance(reply, str):  # such as half a JSON, with the length of the whole
                status, raw, headers = 200, reply.encode(), {}
            elif isinstance(reply, tuple):
                status, raw, headers = reply[0], reply[1].encode(), dict(reply[2]) if len(reply) > 2 else {}
            else:
                status, raw, headers = 200, json.dumps(reply).encode(), {}
            self.send_response(status)
            for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)
            if int(headers.get("Content-Length", len(raw))) > len(raw):
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    return Handler


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(100 * HANG):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")
