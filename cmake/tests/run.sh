#!/usr/bin/env bash
# The libraries as other projects get them: built and installed by CMake, used through find_package, pkg-config and
# add_subdirectory, without a network. Prints what was checked.
#   cmake/tests/run.sh CARGO_TARGET_DIR
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
cargo_dir=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_NET_OFFLINE=true
prefix=$work/prefix

passed() { printf 'packaging: %s\n' "$*"; }
die() { printf 'packaging: %s\n' "$*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "failed: $*"; }; }
# Compares what there is with what there should be, line by line.
same() { diff -u <(printf '%s\n' "$2") <(printf '%s\n' "$3") >&2 || die "$1 differ"; passed "$1"; }
runs() { "$@" | grep -q '^fblayout [0-9.]*, [1-9]' || die "$1 finds no device"; }

# The profile of all tests, so that little is compiled twice; what is packaged does not depend on it.
release=(-DFBLAYOUT_CARGO_DIR="$cargo_dir" -DFBLAYOUT_CARGO_PROFILE=release)
quiet cmake -S "$root" -B "$work/build" "${release[@]}" -DFBLAYOUT_TESTS=ON
quiet cmake --build "$work/build"
quiet ctest --test-dir "$work/build" --output-on-failure
quiet cmake --install "$work/build" --prefix "$prefix"
passed "built, tested and installed"

lib=$(dirname "$(find "$prefix" -name libfblayout.a)")
same "installed files" "\
include/fblayout.h
lib/cmake/fblayout/fblayoutConfig.cmake
lib/cmake/fblayout/fblayoutConfigVersion.cmake
lib/libfblayout.a
lib/libfblayout.so
lib/libfblayout.so.0
lib/libfblayout.so.0.1.0
lib/libggml-fblayout.so
lib/pkgconfig/fblayout.pc" "$(cd "$prefix" && find . -type f -o -type l | sed 's|^\./||' | LC_ALL=C sort)"
same "soname" "libfblayout.so.0" "$(objdump -p "$lib/libfblayout.so" | awk '$1 == "SONAME" { print $2 }')"

exports() { nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort; }
declared=$(grep -oE '\bfbl_[a-z0-9_]+\(' "$prefix/include/fblayout.h" | tr -d '(' | LC_ALL=C sort -u)
same "symbols of libfblayout.so: those that the header declares" "$declared" "$(exports "$lib/libfblayout.so")"
same "symbols of the ggml plugin" "$(printf 'ggml_backend_init\nggml_backend_score')" "$(exports "$lib/libggml-fblayout.so")"

# What rustc says a program links with the static library.
needed=$(cd "$root" && cargo rustc --locked --release --target-dir "$cargo_dir" -p fblayout-c --crate-type staticlib -- \
    --print native-static-libs 2>&1 | sed -n 's/.*native-static-libs: //p' | xargs -n1 | LC_ALL=C sort -u)
export PKG_CONFIG_PATH=$lib/pkgconfig
stated=$(pkg-config --static --libs-only-l fblayout | xargs -n1 | grep -v fblayout | LC_ALL=C sort -u)
same "libraries of the static library" "$needed" "$stated"

consumer=$root/cmake/tests/consumer
quiet cmake -S "$consumer" -B "$work/installed" -DCMAKE_PREFIX_PATH="$prefix"
quiet cmake --build "$work/installed"
for kind in shared static fblayout; do
    runs "$work/installed/hello-$kind"
done
passed "find_package: shared and static programs run"

read -ra flags <<<"$(pkg-config --cflags --libs fblayout)"
quiet cc -std=c99 "$consumer/hello.c" "${flags[@]}" -Wl,-rpath,"$lib" -o "$work/hello-shared"
read -ra flags <<<"$(pkg-config --cflags --libs --static fblayout)"
quiet cc -std=c99 -DFBL_STATIC "$consumer/hello.c" "${flags[@]/#-lfblayout/-l:libfblayout.a}" -o "$work/hello-static"
runs "$work/hello-shared"
runs "$work/hello-static"
passed "pkg-config: shared and static programs run"

# As FetchContent does once the sources are there.
quiet cmake -S "$consumer" -B "$work/inside" -DFBLAYOUT_SOURCE="$root" "${release[@]}"
quiet cmake --build "$work/inside"
for kind in shared static fblayout; do
    runs "$work/inside/hello-$kind"
done
[ ! -e "$work/inside/fblayout/lib/libggml-fblayout.so" ] || die "the plugin was built without being asked for"
passed "add_subdirectory: shared and static programs run"

# How cargo would be called for Android, with a compiler that only has the names of an NDK's.
mkdir "$work/ndk"
for pair in arm64-v8a:aarch64-linux-android armeabi-v7a:armv7-linux-androideabi x86_64:x86_64-linux-android x86:i686-linux-android; do
    triple=${pair#*:}
    linker=$work/ndk/${triple/armv7/armv7a}28-clang
    printf '#!/bin/sh\nexec cc "$@"\n' | install -m 755 /dev/stdin "$linker"
    quiet cmake -S "$root" -B "$work/$triple" -DCMAKE_SYSTEM_NAME=Generic -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
        -DCMAKE_C_COMPILER="$linker" -DANDROID=ON -DANDROID_PLATFORM_LEVEL=28 -DCMAKE_ANDROID_ARCH_ABI="${pair%:*}"
    variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_LINKER
    grep -rq "$variable=$linker .* build .*--target $triple -p fblayout-c" "$work/$triple/CMakeFiles" || die "$triple is not built so"
done
passed "Android: every ABI has its target and linker"

mkdir -p "$work/ggml/src"
echo '#define GGML_BACKEND_API_VERSION 2' >"$work/ggml/src/ggml-backend-impl.h"
cmake -S "$root" -B "$work/old" -DFBLAYOUT_GGML_DIR="$work/ggml" >"$work/log" 2>&1 && die "another ggml's sources are taken"
grep -q 'its plugins speak interface 2' "$work/log" || die "another ggml's sources are refused without words"
passed "sources of another ggml are refused"
