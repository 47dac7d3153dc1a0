#!/usr/bin/env bash
# `nearer adapt` on collections with human labels, which only measure: what the made tests choose, what it gains by the
# labels, and how far the tests' order of all set-ups is that of the labels. Beside it what a user would do instead.
#
#   benchmarks/adapt_domains.sh DOMAINS MODEL TEACHER JUDGE OUT [SEEDS] [BUDGET]
#
# DOMAINS: a folder with collections in BEIR's layout; ONLY="cranfield cosqa" takes these alone. A collection with a file
# unlabelled_queries.txt is adapted a second time with it as a log. SEEDS: "0 1 2" unless given. BUDGET: of one run,
# 10min unless given. All seeds of a collection run side by side (AT_ONCE at a time, 3 unless given).
set -euo pipefail
domains=$1 model=$2 teacher=$3 judge=$4 out=$5 seeds=${6:-0 1 2} budget=${7:-10min}
mkdir -p "$out"

wait_for_one() { while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-3}" ]; do wait -n; done; }

adapted() { # NAME SEED DOMAIN [MORE…]
    local name=$1 seed=$2 domain=$3
    shift 3
    if [ -f "$out/$name-$seed/results.json" ]; then return; fi
    nearer adapt "$domains/$domain/"corpus.jsonl* --model "$model" --teacher "$teacher" --judge "$judge" \
        --labels "$domains/$domain" --choose-by tests --budget "$budget" --seed "$seed" --out "$out/$name-$seed" "$@" \
        > "$out/$name-$seed.log" 2>&1
}

for domain in ${ONLY:-cranfield cosqa fiqa}; do
    nearer evaluate "$model" --max-length 200 --tasks "retrieval:$domains/$domain" --json "$out/$domain-as-it-is.json"
    for seed in $seeds; do
        wait_for_one
        adapted "$domain" "$seed" "$domain" &
        if [ -f "$domains/$domain/unlabelled_queries.txt" ]; then
            wait_for_one
            adapted "$domain-log" "$seed" "$domain" --queries "$domains/$domain/unlabelled_queries.txt" &
        fi
    done
    # what does dropout alone teach on the same text?
    for seed in $seeds; do
        if [ ! -f "$out/$domain-simcse-$seed.json" ]; then
            nearer train simcse-wiki-mini --model "$model" --corpus "$domains/$domain/"corpus.jsonl* --columns text \
                --seed "$seed" --set select_on=[] --set test_on=[] --out "$out/$domain-simcse-$seed" --no-report
            nearer evaluate "$out/$domain-simcse-$seed" --max-length 200 --tasks "retrieval:$domains/$domain" \
                --json "$out/$domain-simcse-$seed.json"
        fi
    done
    wait
done
