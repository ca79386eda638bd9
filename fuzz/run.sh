#!/usr/bin/env bash
# Fuzzes every target for as many seconds, one after the other, from seeds/ and what corpus/ has; ends at a finding.
#   fuzz/run.sh SECONDS [TARGET...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
[ $# -gt 0 ] || set -- graphs views gguf jsonl
for target in "$@"; do
    mkdir -p "corpus/$target" "seeds/$target"
    # Safe Rust needs no sanitizer: what is wrong panics.
    cargo +nightly fuzz run -s none --release "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=2048 -print_final_stats=1
done
