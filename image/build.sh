#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the container image of the operator, as an archive that `docker load`, `podman load`,
# `kind load image-archive` and `ctr -n k8s.io images import` read. No container engine is needed.
#
#   image/build.sh [--tag NAME:TAG] [OUTPUT]   default: tutti:<version of the chart> build/image/tutti.tar
#
# The image holds the stripped program, the shared libraries that it names and nothing else: no shell,
# no package manager. Same sources and same Debian packages give the same image, byte for byte.
# TUTTI_BIN   take this program instead of building one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=tutti:$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' charts/tutti/Chart.yaml)
output=
while (($#)); do
  case $1 in
    --tag) tag=${2:?--tag needs a name} && shift ;;
    -h | --help) sed -n '4,12p' image/build.sh | sed 's/^# \{0,1\}//' && exit ;;
    -*) echo "image/build.sh: unknown option $1" >&2 && exit 2 ;;
    *) output=$1 ;;
  esac
  shift
done
output=${output:-build/image/tutti.tar}

# shellcheck source=../tools/setup.sh
source tools/setup.sh
if [[ -z ${TUTTI_BIN:-} ]]; then
  cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
  nice ninja -C build/release tutti >&2
  TUTTI_BIN=build/release/tutti
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{usr/bin,usr/lib64,etc/ssl/certs,var/lib/tutti,usr/share/doc} "$root/tmp"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
strip -o "$root/usr/bin/tutti" "$TUTTI_BIN"

packages=(ca-certificates)
while read -r library; do
  real=$(readlink -f "$library")
  # Packages list a file with or without /usr; both are the same file.
  owners=$(dpkg-query -S "$real" "${real#/usr}" 2>/dev/null || true)
  packages+=("${owners%%:*}")
  case $library in
    /lib64/*) target=$root/usr/lib64 ;;
    *) target=$root/usr/lib/$(basename "$(dirname "$library")") ;;
  esac
  mkdir -p "$target"
  cp "$real" "$target/$(basename "$library")"
done < <(ldd "$TUTTI_BIN" | grep -o '/[^ ]*' | sort -u)

# The licence of everything in the image.
printf '%s\n' "${packages[@]}" | sort -u | while read -r package; do
  mkdir -p "$root/usr/share/doc/$package"
  cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
done
mkdir -p "$root/usr/share/doc/tutti"
cp LICENSE NOTICE "$root/usr/share/doc/tutti/"

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'tutti:x:65532:65532::/:/sbin/nologin' >"$root/etc/passwd"
echo 'tutti:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
find "$root" -type d -exec chmod 0755 {} +
find "$root" -type f -exec chmod 0644 {} +
chmod 0755 "$root/usr/bin/tutti" "$root"/usr/lib64/*
chmod 1777 "$root/tmp"

layer=$work/layer.tar
tar -C "$root" --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 --format=gnu -cf "$layer" \
  --exclude=./var/lib/tutti .
tar -C "$root" --mtime=@0 --numeric-owner --owner=65532 --group=65532 --format=gnu -rf "$layer" ./var/lib/tutti

mkdir -p "$(dirname "$output")"
archive=$(realpath "$output")
(cd image && CGO_ENABLED=0 GOTOOLCHAIN=local go run . --layer "$layer" --tag "$tag" --version "${tag##*:}" --output "$archive")
echo "$tag: $archive, $(du -h "$archive" | cut -f1)"
