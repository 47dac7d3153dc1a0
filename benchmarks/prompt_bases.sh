#!/usr/bin/env bash
# The bases that the papers stand on, on one backbone with several seeds: SimCSE, PromptBERT, SNCSE and DiffCSE, and
# what templates give untrained. Scores are on the seven STS sets; the step is chosen on STS-B dev.
#
#   benchmarks/prompt_bases.sh path/to/mobilebert-uncased wiki.txt data/senteval OUT [SEEDS] [GENERATOR]
#
# SEEDS: 0,1,2 unless given. GENERATOR: DiffCSE's masked language model with the same vocabulary; null, which is the
# default, draws replaced tokens from the batch. ONLY="promptbert sncse" trains these alone.
set -euo pipefail
model=$1 corpus=$2 data=$3 out=$4 seeds=${5:-0,1,2} generator=${6:-null}
mkdir -p "$out"

for template in promptbert promptbert-untrained sncse; do
    for normalisation in none full_stop; do
        nearer evaluate "$model" --template "$template" --text-normalisation "$normalisation" --max-length 128 \
            --tasks sts --data "$data" --json "$out/untrained-$template-$normalisation.json"
    done
done
# the template in the text and a mean over all tokens: what of it is the pooling?
nearer evaluate "$model" --template promptbert-untrained --pooling mean --max-length 128 \
    --tasks sts --data "$data" --json "$out/untrained-mean-in-template.json"

for method in ${ONLY:-simcse promptbert sncse diffcse}; do
    more=()
    if [ "$method" = diffcse ]; then more=(--set "generator=$generator"); fi
    nearer train "$method-mobilebert" --model "$model" --corpus "$corpus" --data "$data" --seeds "$seeds" \
        --max-steps 1000 --out "$out/$method" --no-report "${more[@]}"
done
# without what each adds: PromptBERT without denoising, SNCSE without soft negatives
if [ -z "${ONLY:-}" ]; then
    nearer train promptbert-mobilebert --model "$model" --corpus "$corpus" --data "$data" --seeds "$seeds" \
        --max-steps 1000 --out "$out/promptbert-without-denoising" --no-report --set denoising=false
    nearer train sncse-mobilebert --model "$model" --corpus "$corpus" --data "$data" --seeds "$seeds" \
        --max-steps 1000 --out "$out/sncse-without-soft-negatives" --no-report --set margin_weight=0
fi
