#!/usr/bin/env bash
# What a student of scored lists gains by labels, which only measure: with more steps, with more queries instead of a
# cross-encoder's scores, and with the teacher's vectors beside its order. This is what adapt's own settings rest on.
#
#   benchmarks/list_students.sh DOMAIN MODEL TEACHER JUDGE OUT [SEEDS]
#
# DOMAIN: a collection in BEIR's layout. SEEDS: "0 1 2" unless given. STEPS=3000, JUDGED=8000 queries with the judge's
# scores, TAUGHT=32000 with the teacher's alone. AT_ONCE trainings side by side, 3 unless given. ONLY="judged" trains
# these rows alone. Runs that are there are taken as they are; the last lines are the figures.
set -euo pipefail
domain=$1 model=$2 teacher=$3 judge=$4 out=$5 seeds=${6:-0 1 2}
steps=${STEPS:-3000}
mkdir -p "$out"

mined() { # NAME QUERIES MORE…
    if [ -e "$out/$1/lists.jsonl" ]; then return; fi
    nearer mine lists "$domain/"corpus.jsonl* --model "$model" --teacher "$teacher" --limit "$2" --out "$out/$1" "${@:3}" \
        > "$out/$1.log" 2>&1
}

trained() { # NAME SEED LISTS MORE…
    local name=$1-$2 lists=$3 seed=$2
    shift 3
    if [ -f "$out/$name.json" ]; then return; fi
    rm -rf "${out:?}/$name"
    nearer train lists --corpus "$out/$lists" --model "$model" --teacher "$teacher" --seed "$seed" --no-report \
        --out "$out/$name" "$@" > "$out/$name.log" 2>&1
    nearer evaluate "$out/$name" --max-length 256 --tasks "retrieval:$domain" --json "$out/$name.json" > "$out/$name.scores" 2>&1
}

row() { # NAME SEED
    local vectors=(--set vector_weight=20 --set learning_rate=1e-4)
    case $1 in
        judged) trained "$1" "$2" judged-lists --set max_steps=1000 ;;
        judged-longer) trained "$1" "$2" judged-lists --set "max_steps=$steps" ;;
        judged-vectors) trained "$1" "$2" judged-lists --set "max_steps=$steps" "${vectors[@]}" ;;
        taught) trained "$1" "$2" taught-lists --set "max_steps=$steps" ;;
        taught-vectors) trained "$1" "$2" taught-lists --set "max_steps=$steps" "${vectors[@]}" ;;
        taught-vectors-faster)
            trained "$1" "$2" taught-lists --set "max_steps=$steps" --set vector_weight=20 --set learning_rate=3e-4 ;;
        *) echo "no such row: $1" >&2 && return 2 ;;
    esac
}

mined judged-lists "${JUDGED:-8000}" --judge "$judge" &
mined taught-lists "${TAUGHT:-32000}" &
wait
for seed in $seeds; do
    for name in ${ONLY:-judged judged-longer judged-vectors taught taught-vectors taught-vectors-faster}; do
        while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-3}" ]; do wait -n || true; done
        { row "$name" "$seed" || echo "failed: $name $seed (see its log in $out)" >&2; } &
    done
done
wait
for scores in "$out"/*.json; do echo "$(basename "$scores" .json) $(python -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["scores"][0]["score"], 2))' "$scores")"; done
