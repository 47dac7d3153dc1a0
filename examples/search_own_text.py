"""Search a text by meaning: an index is built once, opened at no cost, and asked as often as you like.

    python examples/search_own_text.py mine.txt "how do I keep bread fresh?" --index mine.index

Needs `pip install -e '.[search]'`. `--model` is any model; the bundled default only shows how it goes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nearer.search import SearchIndex


def main() -> None:
    parser = argparse.ArgumentParser(description="The nearest sentences of a text.")
    parser.add_argument("text")
    parser.add_argument("query")
    parser.add_argument("--index", default="mine.index", help="folder; used as it is if it is there already")
    parser.add_argument("--model", default="wiki-mini")
    parser.add_argument("-k", type=int, default=5)
    options = parser.parse_args()

    if Path(options.index).exists():
        index = SearchIndex.open(options.index)
    else:
        # a plain checkpoint such as wiki-mini does not say how its vectors are pooled, a trained model does
        pooling = {"pooling": "mean"} if options.model == "wiki-mini" else {}
        index = SearchIndex.build(options.model, options.text, options.index, progress=True, **pooling)
    for hit in index.search(options.query, k=options.k):
        print(f"{hit.score:.3f}  line {hit.line}  {hit.text}")


if __name__ == "__main__":
    main()
