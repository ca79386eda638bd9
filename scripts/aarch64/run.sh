#!/usr/bin/env bash
# Builds for aarch64 Linux and runs under qemu with the folder that sysroot.sh made: the sample of every op, and a training step.
#   scripts/aarch64/run.sh SYSROOT
# FBL_CASE and FBL_STORAGE narrow the sample. Needs what Debian calls gcc-aarch64-linux-gnu and qemu-user-static.
set -euo pipefail
root=$(realpath "${1:?usage: run.sh SYSROOT}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
triple=aarch64-unknown-linux-gnu
for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
    command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 1; }
done
rustup target add "$triple"

variable=$(tr 'a-z-' 'A-Z_' <<<"$triple")
export CARGO_TARGET_"$variable"_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_"$variable"_RUNNER="qemu-aarch64-static -L $root"
export VK_ICD_FILENAMES=$root/usr/share/vulkan/icd.d/lvp_icd.json FBL_CACHE=off
export MESA_SHADER_CACHE_DISABLE=true
# qemu gives a program the whole machine to look for its libraries in; these come first.
export QEMU_SET_ENV=LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu

cargo run --release --target "$triple" -p fblayout-spirv-tests
cargo test --release --target "$triple" -p fblayout-models --test device -- --nocapture llama_3_2
