"""The service as a process: a port, and an end that loses nothing."""

from __future__ import annotations

import errno
import gc
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError, SettingError
from nearer.extras import require
from nearer.serve.limits import CONNECTIONS_TOLD

if TYPE_CHECKING:
    from fastapi import FastAPI

# Seconds behind the last refusal until what is still open is cut off
LAST_SECONDS = 2.0
# Files that a service has open beside its connections, and more
OTHER_FILES = 128


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


def read_api_keys(variable: str | None, file: Path | None) -> list[str]:
    """The key from an environment variable, or those of a file, one a line: on the command line everybody on the
    machine could see it."""
    if variable is not None and file is not None:
        raise SettingError("--api-key-file: give either it or --api-key-env.")
    if variable is None and file is None:
        return []
    where = f"--api-key-env: the variable {variable}" if variable is not None else f"--api-key-file: {file}"
    if file is None:
        text = os.environ.get(variable or "", "")
    else:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise InputError(f"{where} cannot be read ({reason}).") from None
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys:
        raise SettingError(f"{where} holds no key.")
    for key in keys:
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SettingError(f"{where} holds a key that no header can carry: use letters and digits.")
    return keys


def allow_files(count: int) -> int:
    """Let this process have so many files open, or as many as the system allows; returns how many."""
    try:
        import resource
    except ImportError:  # not POSIX: there is no such bound
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        return soft
    return allowed


def run_server(app: FastAPI, bound: socket.socket, *, tell: Callable[[str], None], access_log: bool = False) -> None:
    """Answer until SIGTERM or Ctrl-C; then finish what runs, refuse what comes, and return."""
    service = app.state.service
    wanted = service.limits.connections + CONNECTIONS_TOLD + OTHER_FILES
    allowed = allow_files(wanted)
    if allowed < wanted:
        connections = max(1, allowed - CONNECTIONS_TOLD - OTHER_FILES)
        tell(f"--max-connections: the system allows {allowed:,} open files, so {connections:,} connections (ulimit -n)")
        service.connections.total = connections
    app.openapi()  # made before requests come, which would wait for it
    # what was loaded stays: looked through for garbage again and again, it would hold up requests
    gc.collect()
    gc.freeze()
    new_server(app, bound, tell=tell, access_log=access_log).run(sockets=[bound])
    ended = service.at_the_end
    if not ended["refused"] and not ended["cut off"]:
        tell("ended: all requests were answered")
        return
    figures = ", ".join(f"{ended[outcome]} {outcome}" for outcome in ("answered", "refused", "cut off"))
    tell(f"ended: of the requests that were running, {figures} ({service.limits.grace:g} s were over)")


def new_server(app: FastAPI, bound: socket.socket, *, tell: Callable[[str], None], access_log: bool = False) -> Any:
    """Uvicorn's server, which says where it listens and for which an orderly end by a signal is a success."""
    uvicorn = require("uvicorn", "serve", "the service")
    require("httptools", "serve", "the service")
    from nearer.serve.protocol import BoundedProtocol, Bounds

    service = app.state.service
    host, port = bound.getsockname()[:2]
    shown = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        should_exit: bool

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            tell(f"serving {' and '.join(service.names)} at {shown} (Ctrl-C ends)")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.begin_end()
            await super().shutdown(sockets)

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
            http=partial(BoundedProtocol, bounds=Bounds(service.limits, service.connections, service.metrics)),
            timeout_graceful_shutdown=service.limits.grace + LAST_SECONDS,
        )
    )
