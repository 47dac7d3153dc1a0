#!/usr/bin/env bash
# What a student of scored lists gains by labels, which only measure: with more queries a step, more steps, a higher
# learning rate, the teacher's vectors or its order of passages beside that of the lists, without dropout, and with
# batches of one topic. This is what adapt's own settings rest on.
#
#   benchmarks/list_students.sh DOMAIN MODEL TEACHER JUDGE OUT [SEEDS]
#
# DOMAIN: a collection in BEIR's layout with one split. SEEDS: "0 1 2" unless given. STEPS=2000, QUERIES=16000 to learn
# from. LOG: a file of real queries, which are learnt from first. AT_ONCE trainings side by side, 3 unless given.
# ONLY="wider longer" trains these rows alone. Runs that are there are taken as they are; the last lines are the figures.
set -euo pipefail
domain=$1 model=$2 teacher=$3 judge=$4 out=$5 seeds=${6:-0 1 2}
steps=${STEPS:-2000} queries=${QUERIES:-16000}
split=$(basename "$(ls "$domain"/qrels/*.tsv | head -n 1)" .tsv)
mkdir -p "$out"
AT_ONCE=${AT_ONCE:-3}
source "$(dirname "$0")/side_by_side.sh"

fail() { # NAME
    echo "failed: $1 (see $out/$1.log)" >&2
    exit 1
}

if [ ! -e "$out/lists/lists.jsonl" ]; then
    nearer mine lists "$domain/"corpus.jsonl* --model "$model" --teacher "$teacher" --judge "$judge" --limit "$queries" \
        ${LOG:+--queries "$LOG"} --out "$out/lists" > "$out/lists.log" 2>&1 || fail lists
fi

trained() { # NAME SEED MORE…
    local name=$1-$2 seed=$2
    shift 2
    if [ -f "$out/$name.json" ]; then return; fi
    rm -rf "${out:?}/$name"
    nearer train lists --corpus "$out/lists" --model "$model" --teacher "$teacher" --seed "$seed" --no-report \
        --out "$out/$name" "$@" > "$out/$name.log" 2>&1
    nearer evaluate "$out/$name" --max-length 256 --tasks "retrieval:$domain?split=$split" --json "$out/$name.json" \
        > "$out/$name.scores" 2>&1
}

row() { # NAME SEED
    local wide=(--set batch_size=96 --set passages_per_query=4)
    case $1 in
        narrow) trained "$1" "$2" --set "max_steps=$((steps / 2))" ;; # the recipe: 48 queries with 8 passages each
        wider) trained "$1" "$2" --set "max_steps=$((steps / 2))" "${wide[@]}" ;;
        longer) trained "$1" "$2" --set "max_steps=$steps" "${wide[@]}" ;;
        faster) trained "$1" "$2" --set "max_steps=$steps" "${wide[@]}" --set learning_rate=1e-4 ;;
        fastest) trained "$1" "$2" --set "max_steps=$steps" "${wide[@]}" --set learning_rate=3e-4 ;;
        vectors)
            trained "$1" "$2" --set "max_steps=$steps" "${wide[@]}" --set learning_rate=1e-4 --set vector_weight=20 ;;
        whole | passages | undropped | both | topics) # the teacher reads passages that the student cuts to their end
            local more=()
            if [ "$1" = topics ]; then more=(--set topic_size=24); fi
            if [[ $1 =~ ^(passages|both)$ ]]; then more+=(--set passage_weight=1); fi
            if [[ $1 =~ ^(undropped|both)$ ]]; then more+=(--set dropout=0); fi
            trained "$1" "$2" --set "max_steps=$steps" "${wide[@]}" --set teacher_max_length=whole "${more[@]}" ;;
        *) echo "no such row: $1" >&2 && return 2 ;;
    esac
}

for seed in $seeds; do
    for name in ${ONLY:-narrow wider longer faster fastest vectors whole passages undropped both topics}; do
        at_once row "$name" "$seed"
    done
done
wait
for scores in "$out"/*-[0-9]*.json; do
    python -c 'import json, sys; print(sys.argv[2], round(json.load(open(sys.argv[1]))["scores"][0]["score"], 2))' \
        "$scores" "$(basename "$scores" .json)"
done
