#!/usr/bin/env bash
# A folder with an aarch64 Debian's Vulkan loader, lavapipe and what they need: nothing is installed here, no architecture added.
#   scripts/aarch64/sysroot.sh DIR
set -euo pipefail
root=$(realpath -m "${1:?usage: sysroot.sh DIR}")
mkdir -p "$root"/apt/{lists/partial,cache/archives/partial}
: >"$root/apt/status"

private=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$root/apt/status"
    -o Dir::State::Lists="$root/apt/lists" -o Dir::Cache="$root/apt/cache" -o Debug::NoLocking=true -o APT::Sandbox::User=root)
release=()
# Debian 12's own Mesa miscompiles large shaders; see ./x.
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" != bookworm ] || release=(-t bookworm-backports)

apt-get -q "${private[@]}" update
apt-get -qy "${private[@]}" --no-install-recommends --download-only "${release[@]}" install libc6 libgcc-s1 libvulkan1 \
    mesa-vulkan-drivers vulkan-validationlayers
for package in "$root"/apt/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
done
rm -rf "$root/apt"

# Drivers and layers are named as the loader finds them from outside.
sed -i "s|\"library_path\": *\"[^\"]*libvulkan_lvp.so\"|\"library_path\": \"$root/usr/lib/aarch64-linux-gnu/libvulkan_lvp.so\"|" \
    "$root"/usr/share/vulkan/icd.d/lvp_icd.*json
echo "an aarch64 system with lavapipe is in '$root'"
