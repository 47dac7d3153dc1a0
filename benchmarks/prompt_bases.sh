#!/usr/bin/env bash
# The bases that the papers stand on, on one backbone with several seeds: SimCSE, PromptBERT, SNCSE, DiffCSE and TSDAE,
# each without what it adds, what templates give untrained, and RankCSE and RankEncoder on top of one of them. Scores are
# on the seven STS sets; the step is chosen on STS-B dev.
#
#   benchmarks/prompt_bases.sh path/to/mobilebert-uncased wiki.txt data/senteval OUT [SEEDS] [GENERATOR]
#
# SEEDS: 0,1,2 unless given. GENERATOR: DiffCSE's masked language model with the same vocabulary; null, which is the
# default, draws replaced tokens from the batch. ONLY="untrained promptbert" runs these rows alone. AT_ONCE rows side by
# side, 1 unless given. Rows that are there are taken as they are. The ranking methods are on SNCSE: RankCSE's teachers
# are its runs of seeds 3 and 4, or TEACHER (all-mpnet-base-v2 unless given); RankEncoder's is its run of the same seed.
set -euo pipefail
model=$1 corpus=$2 data=$3 out=$4 seeds=${5:-0,1,2} generator=${6:-null}
mkdir -p "$out"
source "$(dirname "$0")/side_by_side.sh"

evaluated() { # NAME MORE…
    if [ -f "$out/untrained-$1.json" ]; then return; fi
    nearer evaluate "$model" --max-length 128 --tasks sts --data "$data" --json "$out/untrained-$1.json" "${@:2}" \
        > "$out/untrained-$1.log" 2>&1
}

untrained() {
    for template in promptbert promptbert-untrained sncse; do
        for normalisation in none full_stop; do
            evaluated "$template-$normalisation" --template "$template" --text-normalisation "$normalisation"
        done
    done
    # the template in the text and a mean over all tokens: what of it is the pooling?
    evaluated mean-in-template --template promptbert-untrained --pooling mean
    evaluated mean --pooling mean
}

trained() { # NAME RECIPE MORE…
    local name=$1 recipe=$2
    shift 2
    if [ -e "$out/$name/done" ]; then return; fi
    rm -rf "${out:?}/$name"
    nearer train "$recipe" --model "$model" --corpus "$corpus" --data "$data" --seeds "$seeds" --max-steps 1000 \
        --out "$out/$name" --no-report "$@" > "$out/$name.log" 2>&1
    touch "$out/$name/done"
}

as_sncse=(--set template=sncse --set text_normalisation=full_stop)
# SNCSE's second template, and with it the head that is for training only
two_templates=("${as_sncse[@]}" --set 'second_template=This sentence of " {sentence} " means [MASK] .')

rankencoder() { # NAME MORE…: each seed learns from SNCSE's run of the same seed
    for seed in ${seeds//,/ }; do
        seeds=$seed trained "$1-$seed" rankencoder-prompt-mobilebert --teacher "$(model_of sncse "$seed")" "${@:2}"
    done
}

rankcse() { # NAME MORE…
    trained "$1" rankcse-prompt-mobilebert --teacher "$(model_of teachers 3)" --teacher "$(model_of teachers 4)" "${@:2}"
}

model_of() { # NAME SEED: one seed has no folder of its own
    if [ -d "$out/$1/seed-$2" ]; then echo "$out/$1/seed-$2/model"; else echo "$out/$1/model"; fi
}

row() {
    case $1 in
        untrained) untrained ;;
        simcse | promptbert | sncse | tsdae) trained "$1" "$1-mobilebert" ;;
        diffcse) trained diffcse diffcse-mobilebert --set "generator=$generator" ;;
        # the best base so far, [CLS] with a head and MLM beside;
        simcse-cls-mlm)
            trained "$1" simcse-mobilebert --set pooling=cls_before_head --set head=true --set mlm_weight=0.1 ;;
        promptbert-without-denoising) trained "$1" promptbert-mobilebert --set denoising=false ;;
        sncse-without-soft-negatives) trained "$1" sncse-mobilebert --set margin_weight=0 ;;
        diffcse-without-detection) trained "$1" diffcse-mobilebert --set "generator=$generator" --set detection_weight=0 ;;
        teachers) seeds=3,4 trained "$1" sncse-mobilebert ;;
        # what the ranking methods start from where both views are in one template: dropout alone
        simcse-one-template)
            trained "$1" simcse-mobilebert --set pooling=mask --set max_length=42 "${as_sncse[@]}" ;;
        rankcse) rankcse "$1" "${as_sncse[@]}" ;;
        rankcse-two-templates) rankcse "$1" "${two_templates[@]}" ;;
        rankcse-large) trained "$1" rankcse-prompt-mobilebert --teacher "${TEACHER:-all-mpnet-base-v2}" "${as_sncse[@]}" ;;
        rankcse-large-two-templates)
            trained "$1" rankcse-prompt-mobilebert --teacher "${TEACHER:-all-mpnet-base-v2}" "${two_templates[@]}" ;;
        rankencoder) rankencoder "$1" "${as_sncse[@]}" ;;
        rankencoder-two-templates) rankencoder "$1" "${two_templates[@]}" ;;
        *) echo "no such row: $1" >&2 && return 2 ;;
    esac
}

all=${ONLY:-untrained simcse simcse-cls-mlm promptbert promptbert-without-denoising sncse sncse-without-soft-negatives \
    diffcse diffcse-without-detection tsdae simcse-one-template rankcse-large rankcse-large-two-templates teachers \
    rankcse rankcse-two-templates rankencoder rankencoder-two-templates}
for name in $all; do
    case $name in
        rankcse | rankcse-two-templates | rankencoder*) # they learn from runs that come before
            if [ -z "${waited:-}" ]; then wait; fi
            waited=yes ;;
    esac
    at_once row "$name"
done
wait
