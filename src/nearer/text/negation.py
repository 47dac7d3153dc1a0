"""English sentences negated by rules, as soft negatives: nearly the same words, another meaning (SNCSE).

The paper's rules go by spaCy's parse; these go by words alone. The first that fits decides:

1. A negation is taken out: the first "not", or the "n't" of the first contraction.
2. "not" is put behind the first auxiliary (is, was, can, will …). "have" is one before a participle only.
3. The first word that can be a verb form is negated with "do": "plays" becomes "does not play". Only verbs of a list
   count, and lower-case words that end in "ed"; a noun that looks like one of them is taken for it.
4. "Not" is put in front.

On sentences of Wikipedia rules 1 and 2 decide in most cases. What is wrong with the rest is mostly the grammar: rule 3
may negate a verb of a subordinate clause.
"""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
AUXILIARIES = frozenset(
    "am is are was were can could will would shall should may might must do does did".split()  # noqa: SIM905
)
HAVE = frozenset(("has", "have", "had"))
CONTRACTIONS = {"can't": "can", "won't": "will", "shan't": "shall"}
# base form: past tense, where it does not end in "ed"
IRREGULAR = {
    "become": "became", "begin": "began", "break": "broke", "bring": "brought", "build": "built", "buy": "bought",
    "catch": "caught", "choose": "chose", "come": "came", "draw": "drew", "drive": "drove", "eat": "ate",
    "fall": "fell",
    "feel": "felt", "fight": "fought", "find": "found", "fly": "flew", "forget": "forgot", "get": "got", "give": "gave",
    "go": "went", "grow": "grew", "hold": "held", "keep": "kept", "know": "knew", "lead": "led", "leave": "left",
    "lose": "lost", "make": "made", "mean": "meant", "meet": "met", "pay": "paid", "rise": "rose", "run": "ran",
    "say": "said", "see": "saw", "sell": "sold", "send": "sent", "show": "showed", "sing": "sang", "sit": "sat",
    "speak": "spoke", "spend": "spent", "stand": "stood", "swim": "swam", "take": "took", "teach": "taught",
    "tell": "told", "think": "thought", "throw": "threw", "understand": "understood", "wear": "wore", "win": "won",
    "write": "wrote",
}  # fmt: skip
REGULAR = frozenset(
    """add allow appear ask believe belong call carry cause change compete consist contain continue cover create
    cross describe die direct discover enjoy enter exist feature flow follow help include inhabit introduce join last
    like live look love marry move name need occur offer open own perform play present produce provide publish reach
    receive release remain represent require return seem serve share sleep start stay stop study support talk try turn
    use visit walk want watch work""".split()  # noqa: SIM905
)
BASES = {**{base: base for base in REGULAR}, **{base: base for base in IRREGULAR}, "have": "have"}
PAST = {past: base for base, past in IRREGULAR.items()} | {"had": "have"}
ADVERBS = frozenset(("also", "always", "never", "often", "just", "already", "since", "only", "not"))
DOUBLED = re.compile(r"([bdgklmnprt])\1$")
SILENT_E = re.compile(r"(?:[^aeiou][aeiou](?:t|v|c|s|z|g|k|m|n|p|d|r|l)|[cgsvz]|[^aeiou]l|u|dg|rs|rg)$")


def negate(sentence: str) -> str:
    """The sentence with the opposite meaning, by the first rule that fits."""
    words = list(WORD.finditer(sentence))
    for match in words:
        word = match.group()
        if word == "not":
            return (sentence[: match.start()].rstrip() + sentence[match.end() :]).lstrip()
        if word.lower().replace("’", "'").endswith("n't"):
            return sentence[: match.start()] + _affirmed(word) + sentence[match.end() :]
    for number, match in enumerate(words):
        word = match.group().lower()
        if word in AUXILIARIES or (word in HAVE and _is_perfect([each.group() for each in words[number + 1 :]])):
            return f"{sentence[: match.end()]} not{sentence[match.end() :]}"
    for match in words[1:]:
        if (negated := _with_do(match.group())) is not None:
            return sentence[: match.start()] + negated + sentence[match.end() :]
    return put_not_first(sentence)


def put_not_first(sentence: str) -> str:
    """What the paper's rules end with, and what its released code does to a sentence that ends without a full stop."""
    return f"Not {sentence}"


NEGATIONS = {"english": negate, "not_first": put_not_first}


def _affirmed(word: str) -> str:
    plain = word.lower().replace("’", "'")
    affirmed = CONTRACTIONS.get(plain, plain.removesuffix("n't"))
    return affirmed.capitalize() if word[:1].isupper() else affirmed


def _is_perfect(following: list[str]) -> bool:
    """Whether a participle follows, adverbs aside: of "has won" the first is an auxiliary, of "has a son" it is not."""
    word = next((word.lower() for word in following if word.lower() not in ADVERBS), "")
    return word == "been" or word.endswith(("ed", "en", "wn")) or word in PAST or word in ("become", "come", "run")


def _with_do(word: str) -> str | None:
    """The word with "do not", "does not" or "did not" before its base; None where it is no verb that is known."""
    if word != word.lower():
        return None
    if word in PAST:
        return f"did not {PAST[word]}"
    if word.endswith("ed") and len(word) > 4 and word not in ("need", "indeed", "hundred", "speed"):
        return f"did not {_base(word[:-2])}"
    if word in BASES:
        return f"do not {word}"
    for base in (word[:-1], word[:-2], f"{word[:-3]}y", "have" if word == "has" else ""):
        if word.endswith("s") and base in BASES and _third_person(base) == word:
            return f"does not {base}"
    return None


def _third_person(base: str) -> str:
    if base == "have":
        return "has"
    if base.endswith("y") and base[-2] not in "aeiou":
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"


def _base(stem: str) -> str:
    """Of a regular past without its "ed"."""
    if stem in BASES or f"{stem}e" in BASES:
        return stem if stem in BASES else f"{stem}e"
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if DOUBLED.search(stem) and not stem.endswith(("ll", "ss")):
        return stem[:-1]
    return f"{stem}e" if SILENT_E.search(stem) and not stem.endswith(("ss", "en", "er", "it", "on")) else stem
