"""The lines that use an exported model, in `nearer` and in sentence-transformers. The tests run them."""

from __future__ import annotations

from nearer.export.source import Source
from nearer.teachers import RankEncoder

NEARER = """\
import nearer

encoder = nearer.load_model("{name}")
vectors = encoder.encode(["A man is eating.", "It rains."])
for found in encoder.rank("Somebody has lunch.", ["A man is eating.", "It rains."]):
    print(f"{{found.score:.2f}}  {{found.sentence}}")
"""

SENTENCE_TRANSFORMERS = """\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
vectors = model.encode(["Somebody has lunch.", "A man is eating.", "It rains."])
print(model.similarity(vectors[:1], vectors[1:]))
"""


def usage(source: Source, name: str) -> str:
    """Two blocks of Markdown. name: of the model, as it can be loaded."""
    parts = [
        f"With `nearer`:\n\n{_block(NEARER, name)}",
        f"With [sentence-transformers](https://sbert.net):\n\n{_block(SENTENCE_TRANSFORMERS, name)}",
    ]
    if isinstance(source.model, RankEncoder):
        parts.append("sentence-transformers compares by the cosine alone; the rank vectors count in `nearer` only.")
    return "\n\n".join(parts)


def _block(code: str, name: str) -> str:
    return f"```python\n{code.format(name=name)}```"
