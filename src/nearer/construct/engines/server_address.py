"""Servers as language models: their addresses, and the key that belongs to them.

    http://127.0.0.1:8000/v1            the only model that the server has
    http://127.0.0.1:11434/v1#qwen2.5   one of several

A key stands in the environment alone, since addresses are written into the headers of data sets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from nearer.errors import SettingError, first_line

KEY, OPENAI_KEY = "NEARER_API_KEY", "OPENAI_API_KEY"


def is_server(name: object) -> bool:
    """Whether a language model is named by the address of a server."""
    return str(name).lower().startswith(("http://", "https://"))


@dataclass(frozen=True)
class Server:
    """base: what `/chat/completions` is put behind; model: as the server calls it, None: the only one it has."""

    base: str
    model: str | None
    key: str | None
    loopback: bool

    @classmethod
    def at(cls, address: str) -> Server:
        try:
            parts = urlsplit(address.strip())
            host = parts.hostname
            parts.port  # noqa: B018  # reading it finds a port that is none
        except ValueError as error:
            raise SettingError(f"{address}: is no address of a server ({first_line(error)}).") from None
        if not host:
            raise SettingError(f"{address}: names no host; write http://127.0.0.1:8000/v1, for example.")
        if parts.username or parts.password or parts.query:
            raise SettingError(
                f"{parts.scheme}://{host}: no user, password or query may stand in the address, since addresses are "
                f"written down; put a key into the environment (${KEY})."
            )
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        netloc = parts.netloc.rpartition("@")[2]
        return cls(
            f"{parts.scheme}://{netloc}{path or '/v1'}",
            unquote(parts.fragment) or None,
            _key(parts),
            _is_loopback(host),
        )


def _key(parts: SplitResult) -> str | None:
    """Ours goes to any server that the user names; OpenAI's only to OpenAI."""
    name = KEY
    key = os.environ.get(KEY, "").strip()
    host = (parts.hostname or "").lower()
    if not key and parts.scheme == "https" and (host == "openai.com" or host.endswith(".openai.com")):
        name, key = OPENAI_KEY, os.environ.get(OPENAI_KEY, "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingError(f"${name}: is no API key: it has spaces or characters that a header cannot have.")
    return key


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
