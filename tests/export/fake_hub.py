"""The four questions that an upload of small files asks a hub, answered on this machine. What was sent is kept."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeHub:
    """refuses: the status that every request is answered with, if any; unknown questions are a 404."""

    def __init__(self, refuses: int | None = None) -> None:
        self.refuses = refuses
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.tokens: dict[str, str | None] = {}  # by what was asked

    def __enter__(self) -> FakeHub:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                hub.tokens[self.path.partition("?")[0]] = self.headers.get("authorization")
                status, answer = hub.answer(self.path, body)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *values: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, body: bytes) -> tuple[int, Any]:
        if self.refuses is not None:
            return self.refuses, {"error": "not for you"}
        path = path.partition("?")[0]
        if path == "/api/repos/create":
            asked = json.loads(body)
            self.created.append(asked)
            return 200, {"url": f"{self.address}/{asked['organization']}/{asked['name']}"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.startswith("/api/models/") and "/preupload/" in path:
            files = json.loads(body)["files"]
            told = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            return 200, {"files": told}
        if path.startswith("/api/models/") and "/commit/" in path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return 200, {"commitOid": "0" * 40, "commitUrl": f"{self.address}/me/mine/commit/{'0' * 40}"}
        return 404, {"error": f"no answer to {path}"}
