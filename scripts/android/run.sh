#!/usr/bin/env bash
# The sample of every op on a phone: built with an NDK, pushed by adb, run, and its table brought back as out/android.md.
#   ANDROID_NDK_HOME=DIR scripts/android/run.sh [ADB OPTIONS]
# FBL_CASE narrows the sample, FBL_STORAGE and FBL_LIMITS are passed on. NOT RUN ON A PHONE BY THIS PROJECT YET.
set -euo pipefail
ndk=${ANDROID_NDK_HOME:?the folder of an Android NDK}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
triple=aarch64-linux-android
# Android 9, the first with Vulkan 1.1.
level=28
tools=$(echo "$ndk"/toolchains/llvm/prebuilt/*/bin)
linker=$tools/$triple$level-clang
[ -x "$linker" ] || { echo "'$linker' was not found" >&2; exit 1; }

rustup target add "$triple"
CARGO_TARGET_AARCH64_LINUX_ANDROID_LINKER=$linker \
    cargo build --locked --release --target "$triple" -p fblayout-spirv-tests
program=${CARGO_TARGET_DIR:-target}/$triple/release/fblayout-spirv-tests
"$tools/llvm-strip" -o "$program.stripped" "$program"

adb=(adb "$@")
phone=/data/local/tmp/fblayout
"${adb[@]}" shell mkdir -p "$phone"
"${adb[@]}" push "$program.stripped" "$phone/spirv-tests"
mkdir -p out
settings="FBL_CACHE=off FBL_CASE='${FBL_CASE:-}' FBL_STORAGE='${FBL_STORAGE:-}' FBL_LIMITS='${FBL_LIMITS:-}'"
status=0
"${adb[@]}" shell "cd $phone && $settings ./spirv-tests" | tee out/android.md || status=$?
"${adb[@]}" shell getprop ro.product.model | sed 's/^/phone: /' >>out/android.md
echo "the table is in out/android.md"
exit "$status"
