"""Which versions made a model or a score."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

VERSION = "0.1.0"


def library_versions() -> dict[str, str]:
    versions = {"nearer": VERSION}
    for package, name in (("torch", "pytorch"), ("transformers", "transformers")):
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            continue
    return versions
