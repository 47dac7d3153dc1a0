"""Which versions made a model or a score."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import nearer


def library_versions() -> dict[str, str]:
    versions = {"nearer": nearer.__version__}
    for package, name in (("torch", "pytorch"), ("transformers", "transformers")):
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            continue
    return versions
