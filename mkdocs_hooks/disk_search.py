"""Search that works from the disk: pages opened as file:// may load scripts, but not JSON and not workers.

So the index that mkdocs makes is written as a script too, and docs/site.js searches it in the page.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

THEIRS = "search/main.js"  # asks a worker, which asks for JSON


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.extra_javascript = [script for script in config.extra_javascript if str(script) != THEIRS]
    return config


def on_post_build(config: MkDocsConfig) -> None:
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "pages.js").write_text(f"window.searchedPages = {index};\n", encoding="utf-8")
    for unused in ("search_index.json", "main.js", "worker.js"):
        (folder / unused).unlink(missing_ok=True)
