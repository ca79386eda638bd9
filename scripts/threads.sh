#!/usr/bin/env bash
# The calls that the header allows from several threads at once, under ThreadSanitizer: the tests of ffi/c/tests/threads.rs, with the
# engine and Rust's own library instrumented. Fails on a race of theirs; of drivers, which are not instrumented, nothing is told.
#   scripts/threads.sh [arguments of the test program]
# Needs a nightly compiler (rustup toolchain install nightly). FBL_TOOLCHAIN names another one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
toolchain=${FBL_TOOLCHAIN:-nightly}
rustup component add --toolchain "$toolchain" rust-src
triple=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')

# Drivers and layers are not instrumented: what they do to be safe from several threads is not seen.
theirs=$(mktemp)
trap 'rm -f "$theirs"' EXIT
printf 'race:%s\n' libvulkan libVkLayer libLLVM >"$theirs"
export TSAN_OPTIONS="suppressions=$theirs exitcode=66 ${TSAN_OPTIONS:-}" FBL_ROUNDS=${FBL_ROUNDS:-40}
export RUSTFLAGS="-Zsanitizer=thread" CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_INCREMENTAL=0 FBL_CACHE=off
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/threads \
    cargo "+$toolchain" test --locked --release -Zbuild-std --target "$triple" -p fblayout-c --test threads -- "$@"
