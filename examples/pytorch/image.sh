#!/bin/sh
# image.sh FILE: writes a file system of Debian 12 with its PyTorch as an archive, of which
# an engine makes an image without any registry. It needs root, debootstrap and the network:
# 250 MB are fetched and 1.3 GB written.
set -eu
file=$1
mkdir -p "$(dirname "$file")"
root=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf "$root" "$file.part"' EXIT
trap 'exit 1' HUP INT TERM
debootstrap --variant=minbase bookworm "$root"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d" # packages start no services
chmod 755 "$root/usr/sbin/policy-rc.d" "$root"
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y --no-install-recommends python3-torch
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/*
tar -C "$root" -cf "$file.part" .
mv "$file.part" "$file"
