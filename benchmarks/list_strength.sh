#!/usr/bin/env bash
# Ranking lists at several strengths of directional decoding: how many are kept, how far they are in order, how fluent they
# are, and what students learn from them. And why shuffled lists help: shuffled once and anew, and the judge alone.
#
#   benchmarks/list_strength.sh LLM BASE JUDGE premises.txt data/senteval OUT [SEEDS] [READER]
#
# LLM: writes the lists (Qwen2.5-Coder-1.5B-Instruct in the paper). BASE: the trained encoder that is refined. JUDGE: --teacher
# of refinement. READER: another language model, for the perplexity; none: it is left out. SEEDS: 0,1,2 unless given.
# STRENGTHS="0.25 0.5 1 1.5", LISTS=2000, STEPS=32, BATCH=128, ENCODER=all-mpnet-base-v2 (judges the order),
# MORE="--max-steps 2" is added to every training.
set -euo pipefail
llm=$1 base=$2 judge=$3 corpus=$4 data=$5 out=$6 seeds=${7:-0,1,2} reader=${8:-}
strengths=${STRENGTHS:-0.25 0.5 1 1.5} lists=${LISTS:-2000} steps=${STEPS:-32} batch=${BATCH:-128}
mkdir -p "$out"
teacher=(--teacher "$judge")

refine() { # name lists [more]: once
    local name=$1 from=$2
    shift 2
    if [ ! -e "$out/$name/done" ]; then
        rm -rf "${out:?}/$name"
        nearer train refine-mobilebert --model "$base" "${teacher[@]}" --corpus "$from" --data "$data" --seeds "$seeds" \
            --no-report --out "$out/$name" "$@" ${MORE:-}
        touch "$out/$name/done"
    fi
}

folders=()
for strength in $strengths; do
    nearer construct lists --corpus "$corpus" --llm "$llm" --guidance "$strength" --steps "$steps" --minimum-steps 10 \
        --first-line --limit "$lists" --batch "$batch" --out "$out/lists-$strength" 2>&1 | tee "$out/lists-$strength.log"
    folders+=("$out/lists-$strength")
done
nearer construct inspect "${folders[@]}" --model "${ENCODER:-all-mpnet-base-v2}" --show 5 --out "$out/lists.svg" \
    2>&1 | tee "$out/order.log"
if [ -n "$reader" ]; then
    python -m benchmarks.fluency "${folders[@]}" --llm "$reader" --limit 500 --json "$out/fluency.json"
fi
for strength in $strengths; do
    refine "refined-$strength" "$out/lists-$strength/data.jsonl"
done

# the odd result: is it the order, the number of sentences, or the judge's similarities alone?
paper=$out/lists-0.5/data.jsonl
if [ -e "$paper" ]; then
    refine shuffled-once "$paper" --set shuffle_lists=once
    refine shuffled-anew "$paper" --set shuffle_lists=anew
    refine judge-alone "$paper" --set rank_strength=0
    refine shorter-lists "$paper" --set list_length=6
    teacher=()
    refine order-alone "$paper" --set target=order
fi
