#!/bin/sh
# Merges the system's shaderc, glslang and SPIRV-Tools archives into one libshaderc_combined.a and prints its folder,
# for SHADERC_LIB_DIR: some distributions' combined archive and shared library lack the objects they refer to.
# usage: shaderc-archive.sh OUTPUT_FOLDER
set -eu
out=${1:?usage: shaderc-archive.sh OUTPUT_FOLDER}
lib=/usr/lib/$(uname -m)-linux-gnu
target=$out/libshaderc_combined.a
names="shaderc_combined glslang MachineIndependent GenericCodeGen OSDependent OGLCompiler HLSL SPIRV SPIRV-Tools-opt SPIRV-Tools"
for name in $names; do
    if [ ! -e "$lib/lib$name.a" ]; then
        echo "shaderc-archive: $lib/lib$name.a is missing: apt-get install libshaderc-dev glslang-dev spirv-tools" >&2
        exit 1
    fi
done
mkdir -p "$out"
if [ ! -e "$target" ] || [ "$lib/libshaderc_combined.a" -nt "$target" ]; then
    {
        echo "create $target.new"
        for name in $names; do echo "addlib $lib/lib$name.a"; done
        echo save
        echo end
    } | ar -M
    mv "$target.new" "$target"
fi
(cd "$out" && pwd)
