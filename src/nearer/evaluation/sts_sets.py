"""The seven STS sets: what they are called, which subsets and splits they have, and how many pairs each must hold."""

from __future__ import annotations

# year: subset: pairs with a gold score. STS13 is without SMT, whose text is not free.
YEARS: dict[str, dict[str, int]] = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "OnWN": 750,
        "images": 750,
        "tweet-news": 750,
    },
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}

# split: (file, pairs)
BENCHMARK = {"train": ("sts-train.csv", 5749), "dev": ("sts-dev.csv", 1500), "test": ("sts-test.csv", 1379)}
SICK = {
    "train": ("SICK_train.txt", 4500),
    "dev": ("SICK_trial.txt", 500),
    "test": ("SICK_test_annotated.txt", 4927),
}

# what a user asks for: (set, split); "all" is every pair of SICK, as MTEB evaluates it
TASKS: dict[str, tuple[str, str]] = {
    **{year.lower(): (year, "test") for year in YEARS},
    "stsb": ("STS-B", "test"),
    "stsb-dev": ("STS-B", "dev"),
    "stsb-train": ("STS-B", "train"),
    "sick-r": ("SICK-R", "test"),
    "sick-r-dev": ("SICK-R", "dev"),
    "sick-r-train": ("SICK-R", "train"),
    "sick-r-all": ("SICK-R", "all"),
}
EVERYDAY = "everyday"  # the project's own, bundled
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick-r")


def expected_pairs(set_name: str, split: str) -> int:
    if set_name in YEARS:
        return sum(YEARS[set_name].values())
    splits = BENCHMARK if set_name == "STS-B" else SICK
    return sum(count for _, count in splits.values()) if split == "all" else splits[split][1]
