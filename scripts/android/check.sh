#!/usr/bin/env bash
# Compiles and links the libraries for aarch64-linux-android without an NDK, against empty libraries of the system's names, and
# compares what they import with imports.txt. That they load and run on a phone is not shown by this.
#   scripts/android/check.sh [--update]
# Needs what Debian calls gcc-aarch64-linux-gnu, for the empty libraries.
set -euo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
cd "$here/../.."
triple=aarch64-linux-android
rustup target add "$triple"
cargo check --locked --release --target "$triple" -p fblayout -p fblayout-c -p ggml-fblayout -p fblayout-spirv-tests

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/$triple
stubs=$target/stubs
mkdir -p "$stubs"
for name in c dl m log unwind; do
    aarch64-linux-gnu-gcc -shared -nostdlib -x c /dev/null -o "$stubs/lib$name.so" -Wl,-soname,"lib$name.so"
done
# What starts and ends a library comes from the NDK; here it is left out.
printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc -nostdlib -nostartfiles -L%s "$@"\n' "$stubs" | install -m 755 /dev/stdin "$stubs/cc"
export CARGO_TARGET_AARCH64_LINUX_ANDROID_LINKER=$stubs/cc
cargo build --locked --release --target "$triple" -p fblayout-c -p ggml-fblayout

imports() {
    for library in libfblayout_c.so libggml_fblayout.so; do
        aarch64-linux-gnu-nm -D --undefined-only "$target/release/$library" | awk '{ print $2 }' | sed 's/@.*//'
    done | LC_ALL=C sort -u
}
if [ "${1:-}" = --update ]; then
    imports >"$here/imports.txt"
else
    diff -u "$here/imports.txt" <(imports)
fi
echo "compiled and linked for $triple; imports are the $(wc -l <"$here/imports.txt") of imports.txt"
