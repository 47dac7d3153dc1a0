"""The service as a process: a port, and an end that loses nothing."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError, SettingError
from nearer.extras import require

if TYPE_CHECKING:
    from fastapi import FastAPI

# Seconds that running requests get when the service is told to end
GRACE = 60


def open_port(host: str, port: int) -> socket.socket:
    """Taken before a model is loaded, so that a wrong one is told at once. It listens when the service is ready."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(kind, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except socket.gaierror as error:
        raise SettingError(f"--host: {host!r} is no address of this machine ({error.strerror}).") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingError(f"--port: {port} is in use on {host}; choose another, or 0 for any free one.") from None
        raise SettingError(f"--host, --port: {host} port {port} cannot be opened ({error.strerror}).") from None
    return bound


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_api_key(variable: str | None, file: Path | None) -> str | None:
    """The key, from an environment variable or a file: on the command line everybody on the machine could see it."""
    if variable is not None and file is not None:
        raise SettingError("--api-key-file: give either it or --api-key-env.")
    if variable is None and file is None:
        return None
    where = f"--api-key-env: the variable {variable}" if variable is not None else f"--api-key-file: {file}"
    if file is None:
        key = os.environ.get(variable or "")
    else:
        try:
            key = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise InputError(f"{where} cannot be read ({reason}).") from None
    if not key or not (key := key.strip()):
        raise SettingError(f"{where} holds no key.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingError(f"{where} holds a key that no header can carry: use letters and digits.")
    return key


def run_server(app: FastAPI, bound: socket.socket, *, tell: Callable[[str], None], access_log: bool = False) -> None:
    """Answer until SIGTERM or Ctrl-C; then finish what runs, refuse what comes, and return."""
    new_server(app, bound, tell=tell, access_log=access_log).run(sockets=[bound])
    left = app.state.service.open_requests
    tell("ended: " + (f"{left} requests were cut off" if left else "all requests were answered"))


def new_server(app: FastAPI, bound: socket.socket, *, tell: Callable[[str], None], access_log: bool = False) -> Any:
    """Uvicorn's server, which says where it listens and for which an orderly end by a signal is a success."""
    uvicorn = require("uvicorn", "serve", "the service")
    host, port = bound.getsockname()[:2]
    shown = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        should_exit: bool

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            tell(f"serving {' and '.join(app.state.service.names)} at {shown} (Ctrl-C ends)")

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Uvicorn would raise the signal again at the end."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            before = {number: signal.signal(number, self.end) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

        def end(self, number: int, frame: FrameType | None) -> None:
            if self.should_exit and number == signal.SIGINT:  # a second Ctrl-C means it
                self.force_exit = True
            self.should_exit = True

    return Server(
        uvicorn.Config(
            app,
            log_level="info" if access_log else "warning",
            access_log=access_log,
            lifespan="on",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
    )
