#!/usr/bin/env bash
# Supervised SimCSE on triplets that a language model wrote, beside human ones: given sentences and sentences from scratch,
# with curation and masking one by one, several seeds. Scores are on the seven STS sets; the step is chosen on STS-B dev.
#
#   benchmarks/generated_triplets.sh LLM path/to/mobilebert-uncased premises.txt wiki.txt nli.csv data/senteval OUT [SEEDS]
#
# LLM: a folder, GGUF file or hub name of transformers (a Qwen instruct model), or http://… . SEEDS: 0,1,2 unless given.
# COUNT=30000 triplets to train on, GENERATED=45000 sentences to write for, BATCH=256. ONLY="partial" leaves scratch out.
# MORE="--max-steps 2" is added to every training.
# Every command goes on where it was interrupted, and runs that are there are not trained again.
set -euo pipefail
llm=$1 model=$2 premises=$3 wiki=$4 nli=$5 data=$6 out=$7 seeds=${8:-0,1,2}
count=${COUNT:-30000} generated=${GENERATED:-45000} batch=${BATCH:-256}
mkdir -p "$out"

train() { # name recipe corpus [more]: once
    local name=$1 recipe=$2 corpus=$3
    shift 3
    if [ ! -e "$out/$name/done" ]; then
        rm -rf "${out:?}/$name"
        nearer train "$recipe" --model "$model" --corpus "$corpus" --data "$data" --seeds "$seeds" --no-report \
            --out "$out/$name" "$@" ${MORE:-}
        touch "$out/$name/done"
    fi
}

# the frozen encoder that finds false negatives: unsupervised, so that no human label is used anywhere
if [ ! -e "$out/simcse/done" ]; then
    rm -rf "$out/simcse"
    nearer train simcse-mobilebert --model "$model" --corpus "$wiki" --data "$data" --max-steps 1000 --seed 0 --no-report \
        --out "$out/simcse" ${MORE:-}
    touch "$out/simcse/done"
fi
judge=$out/simcse/model

for mode in ${ONLY:-partial scratch}; do
    source=(--corpus "$premises")
    if [ "$mode" = scratch ]; then source=(--scratch); fi
    # everything is kept with its scores (alpha 0, beta 5, gap 0); what curation would keep is chosen from that
    nearer construct triplets "${source[@]}" --llm "$llm" --limit "$generated" --batch "$batch" --curate --alpha 0 --beta 5 \
        --gap 0 --no-swap --nli "$nli" --show 20 --out "$out/$mode" 2>&1 | tee "$out/$mode.log"
    python -m benchmarks.curate_triplets "$out/$mode/data.jsonl" "$out/$mode-all.jsonl" --count "$count" --all
    python -m benchmarks.curate_triplets "$out/$mode/data.jsonl" "$out/$mode-curated.jsonl" --count "$count"
    for kept in all curated; do
        train "$mode-$kept" simcse-supervised-mobilebert "$out/$mode-$kept.jsonl"
        train "$mode-$kept-masked" multicsr-mobilebert "$out/$mode-$kept.jsonl" --teacher "$judge"
    done
    for threshold in 0.8 0.9; do
        train "$mode-curated-masked-$threshold" multicsr-mobilebert "$out/$mode-curated.jsonl" --teacher "$judge" \
            --set "false_negative_threshold=$threshold"
    done
done
train nli simcse-supervised-mobilebert "$nli"
