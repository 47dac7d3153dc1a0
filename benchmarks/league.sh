#!/usr/bin/env bash
# The league of benchmarks/league-mobilebert.yaml from raw data: first what some methods need (two trained encoders as
# teachers, debiased samples), then all runs.
#
#   benchmarks/league.sh NAME MODEL DATA OUT
#
# NAME, MODEL: the backbone, such as mobilebert path/to/mobilebert-uncased, or wiki-mini wiki-mini. DATA: a folder with
# wiki.txt, documents.txt (one on each line), nli.csv, senteval/, rerank/, and lists/ and triplets/ if there are some:
# methods whose data is not there are left out, and named. TEACHER=all-mpnet-base-v2 teaches rankcse-large, SAMPLES=48000
# debiased samples, WORKERS=1 runs at a time, STEPS=1000, MORE="--dry-run" is added to the league's command. CHANGES: YAML
# that is put over the league's file (`settings`, `tune` and `methods` are merged; a method that is null is left out). Its
# settings also count for the encoders that are trained first. It goes on where it was interrupted.
set -euo pipefail
name=$1 model=$2 data=$(realpath "$3") out=$4
if [ -d "$model" ]; then model=$(realpath "$model"); fi
here=$(realpath "$(dirname "$0")")
mkdir -p "$out"
cd "$out"

fail() { # NAME
    echo "failed: $1 (see $out/$1.log)" >&2
    exit 1
}

# the settings for all methods, as options of train
options=$(python -c '
import json, os, yaml
for name, value in ((yaml.safe_load(os.environ.get("CHANGES", "")) or {}).get("settings") or {}).items():
    print("--set", name + "=" + (value if isinstance(value, str) else json.dumps(value)))
')

for recipe in simcse sncse; do
    if [ ! -d "$recipe-mobilebert/model" ]; then
        rm -rf "$recipe-mobilebert"
        # a seed that no run of the league has
        nearer train "$recipe-mobilebert" --model "$model" --corpus "$data/wiki.txt" --data "$data/senteval" --seed 100 \
            --max-steps "${STEPS:-1000}" --no-report $options --out "$recipe-mobilebert" > "$recipe.log" 2>&1 &
    fi
done
wait
for recipe in simcse sncse; do
    if [ ! -d "$recipe-mobilebert/model" ]; then fail "$recipe"; fi
done
nearer construct debiased --corpus "$data/wiki.txt" --model simcse-mobilebert/model --limit "${SAMPLES:-48000}" \
    --out debiased > debiased.log 2>&1 || fail debiased

python - "$here/league-mobilebert.yaml" "$name" "$model" "$data" "${TEACHER:-all-mpnet-base-v2}" "${STEPS:-1000}" <<'PYTHON'
import os
import sys
from pathlib import Path

import yaml

file, name, model, data, teacher, steps = sys.argv[1:]
league = yaml.safe_load(Path(file).read_text())
league |= {"title": f"{name}, {int(steps):,} steps", "backbones": {name: model}, "steps": int(steps), "data": data}
league["corpus"] = f"{data}/wiki.txt"
for key, value in (yaml.safe_load(os.environ.get("CHANGES", "")) or {}).items():
    if isinstance(value, dict) and isinstance(league.get(key), dict):
        value = league[key] | value
    league[key] = value
for method, entry in list(league["methods"].items()):
    if entry is None:
        del league["methods"][method]
        continue
    if "start" in entry:
        entry["start"] = {name: str(Path("simcse-mobilebert/model").absolute())}
    if "teachers" in entry:
        names = {"all-mpnet-base-v2": teacher}
        entry["teachers"] = [names.get(one, str(Path(one).absolute())) for one in entry["teachers"]]
    if corpus := entry.get("corpus"):
        found = [path for path in (Path(corpus).absolute(), Path(data) / corpus) if path.exists()]
        if not found:
            print(f"left out: {method}, since {corpus} is not there")
            del league["methods"][method]
            continue
        entry["corpus"] = str(found[0])
Path("league.yaml").write_text(yaml.safe_dump(league, sort_keys=False))
PYTHON
nearer league league.yaml --out "league-$name" --workers "${WORKERS:-1}" ${MORE:-}
