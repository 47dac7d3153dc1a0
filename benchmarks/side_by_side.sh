# For scripts that run several commands at the same time: source it, with AT_ONCE set (1 unless given).
#
# Each command gets its share of the processors. Six runs of adapt with 16 threads each on 16 processors kept a GPU at
# 13 %: threads that wait for each other take the processors from those that have work.
threads=$(($(nproc) / ${AT_ONCE:=1}))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}
export RAYON_NUM_THREADS=${RAYON_NUM_THREADS:-$OMP_NUM_THREADS} # of tokenizers

at_once() { # COMMAND…: in the background, as soon as fewer than AT_ONCE are running
    while [ "$(jobs -rp | wc -l)" -ge "$AT_ONCE" ]; do wait -n || true; done
    { "$@" || echo "failed: $* (see its log in $out)" >&2; } &
}
