#!/usr/bin/env bash
# `nearer adapt` on collections with human labels, which only measure: what the made tests choose, what it gains by the
# labels, and how far the tests' order of all set-ups is that of the labels. Beside it what a user would do instead.
#
#   benchmarks/adapt_domains.sh DOMAINS MODEL TEACHER JUDGE OUT [SEEDS] [BUDGET]
#
# DOMAINS: a folder with collections in BEIR's layout; ONLY="cranfield cosqa" takes these alone. SEEDS: "0 1 2" unless
# given. BUDGET: of one run, 10min unless given. AT_ONCE runs side by side, 3 unless given. ROWS="adapt gpl" takes these
# rows alone: adapt; log (a second time with the collection's unlabelled_queries.txt, if it has one); llm (with queries
# that the language model LLM writes, if one is given); serve (the teacher may be chosen itself); tsdae (students start
# after TSDAE on the text); SimCSE and GPL on the same text (GPL's margins with its own settings but GPL_STEPS steps,
# 3000 unless given, and query-like text instead of written queries; and gpl-cosine, the same margins between cosines,
# by which nearer searches). MORE: further options of adapt, such as "--most-steps 8000". Every run that is there is
# taken as it is; the last lines are the table.
set -euo pipefail
domains=$1 model=$2 teacher=$3 judge=$4 out=$5 seeds=${6:-0 1 2} budget=${7:-10min}
rows=" ${ROWS:-adapt log llm simcse gpl} "
mkdir -p "$out"

AT_ONCE=${AT_ONCE:-3}
source "$(dirname "$0")/side_by_side.sh"

adapted() { # NAME SEED DOMAIN [MORE…]
    local name=$1 seed=$2 domain=$3
    shift 3
    if [ -f "$out/$name-$seed/results.json" ]; then return; fi
    nearer adapt "$domains/$domain/"corpus.jsonl* --model "$model" --teacher "$teacher" --judge "$judge" \
        --labels "$domains/$domain" --choose-by tests --budget "$budget" --seed "$seed" --out "$out/$name-$seed" "$@" \
        ${MORE:-} > "$out/$name-$seed.log" 2>&1
}

trained() { # NAME DOMAIN RECIPE ARGUMENTS…: and scored by the labels
    local name=$1 domain=$2 recipe=$3
    shift 3
    if [ -f "$out/$name.json" ]; then return; fi
    rm -rf "${out:?}/$name"
    nearer train "$recipe" --model "$model" --out "$out/$name" --no-report "$@" > "$out/$name.log" 2>&1
    scored "$name" "$domain" "$out/$name"
}

scored() { # NAME DOMAIN MODEL
    if [ -f "$out/$1.json" ]; then return; fi
    local split
    split=$(basename "$(ls "$domains/$2"/qrels/*.tsv | head -n 1)" .tsv)
    nearer evaluate "$3" --max-length 256 --tasks "retrieval:$domains/$2?split=$split" --json "$out/$1.json" \
        > "$out/$1.scores" 2>&1
}

for domain in ${ONLY:-cranfield cosqa fiqa}; do
    at_once scored "$domain-base" "$domain" "$model"
    for seed in $seeds; do
        if [[ $rows == *" adapt "* ]]; then at_once adapted "$domain" "$seed" "$domain"; fi
        if [[ $rows == *" llm "* && -n ${LLM:-} ]]; then
            at_once adapted "$domain-llm" "$seed" "$domain" --llm "$LLM"
        fi
        if [[ $rows == *" serve "* ]]; then at_once adapted "$domain-serve" "$seed" "$domain" --serve-teachers; fi
        if [[ $rows == *" tsdae "* ]]; then at_once adapted "$domain-tsdae" "$seed" "$domain" --pretrain tsdae; fi
        if [[ $rows == *" log "* && -f $domains/$domain/unlabelled_queries.txt ]]; then
            at_once adapted "$domain-log" "$seed" "$domain" --queries "$domains/$domain/unlabelled_queries.txt"
        fi
    done
    if [[ $rows == *" simcse "* ]]; then # what does dropout alone teach on the same text?
        for seed in $seeds; do
            at_once trained "$domain-simcse-$seed" "$domain" simcse-wiki-mini --corpus "$domains/$domain/"corpus.jsonl* \
                --columns text --seed "$seed" --set select_on=[] --set test_on=[]
        done
    fi
    if [[ $rows == *" gpl "* ]]; then
        if [ ! -d "$out/$domain-judged" ]; then
            nearer mine lists "$domains/$domain/"corpus.jsonl* --model "$model" --judge "$judge" --weights judge=1 \
                --limit 8000 --out "$out/$domain-judged" > "$out/$domain-judged.log" 2>&1
        fi
        for seed in $seeds; do
            as_gpl=(gpl --corpus "$out/$domain-judged" --seed "$seed" --set "max_steps=${GPL_STEPS:-3000}" --set warmup=0.1)
            at_once trained "$domain-gpl-$seed" "$domain" "${as_gpl[@]}"
            at_once trained "$domain-gpl-cosine-$seed" "$domain" "${as_gpl[@]}" --set similarity=cosine \
                --set student_temperature=0.05
        done
    fi
done
wait
python -m benchmarks.adapt_table "$out"
