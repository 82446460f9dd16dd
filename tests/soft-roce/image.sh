# shellcheck shell=bash
# Sourced by run.sh: the kernel and the initramfs of the virtual machines, made once and kept.
# Uses its `here`, `run`, `offline`, `fail` and `skip`; sets `image`, the folder of kernel and initramfs.
# shellcheck disable=SC2154

packages=(qemu-system-x86 busybox-static cpio kmod rdma-core ibverbs-providers ibverbs-utils
  rdmacm-utils perftest iproute2 util-linux python3)
cache=${XDG_CACHE_HOME:-~/.cache}/cordma/soft-roce  # without HOME, the user's
# rdma_rxe requests "crc32" from the crypto API when a link is added; no module dependency states
# it.
modules=(crc32_generic rdma_rxe rdma_ucm ib_uverbs ib_umad 9p 9pnet_virtio virtio_pci virtio_net
  virtio_console overlay veth sch_netem)

as_root() {  # as_root COMMAND...: does not run if that needs a password
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_missing() {
  local missing
  [ "$(uname -m)" = x86_64 ] || skip "the virtual machine is an x86-64 one; this is $(uname -m)"
  command -v dpkg-query > /dev/null || skip "not a Debian system; needed: ${packages[*]}"
  mapfile -t missing < <(missing_packages "${packages[@]}")
  [ ${#missing[@]} -gt 0 ] || return 0
  [ -z "$offline" ] || skip "missing packages: ${missing[*]}; run.sh --prepare installs them"
  echo "soft-roce: installing: ${missing[*]}" >&2
  { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"; } > "$run/apt.log" 2>&1 ||
    skip "cannot install ${missing[*]}: $(tail -n 1 "$run/apt.log")"
}

# Downloads apt's newest stock kernel to the cache, as the only kernel-VERSION.deb there. Fails if
# apt has none or cannot download it.
fetch_kernel() {
  local name version folder
  name=$(apt-cache depends linux-image-amd64 2> /dev/null | sed -n 's/^ *Depends: //p' | head -n 1)
  [ -n "$name" ] || { echo "apt knows no linux-image-amd64" > "$run/apt.log"; return 1; }
  version=$(apt-cache policy "$name" | sed -n 's/^ *Candidate: //p')
  [ ! -e "$cache/kernel-$version.deb" ] || return 0
  echo "soft-roce: downloading $name $version (70 MB)" >&2
  folder=$(mktemp -d "$cache/download-XXXXXX")
  if (cd "$folder" && apt-get download -q "$name=$version") > "$run/apt.log" 2>&1; then
    rm -f "$cache"/kernel-*.deb
    mv "$folder"/*.deb "$cache/kernel-$version.deb"
  fi
  rm -rf "$folder"
  [ -e "$cache/kernel-$version.deb" ]
}

build_initramfs() {  # build_initramfs UNPACKED_KERNEL VERSION FILE
  local tree=$1/initramfs module file
  mkdir -p "$tree"/{bin,dev,proc} "$tree/lib/modules/$2"
  cp /bin/busybox "$tree/bin/busybox"
  install -m 755 "$here/guest/init" "$tree/init"
  printf '%s\n' "${modules[@]}" > "$tree/modules"
  for module in "${modules[@]}"; do
    modprobe -d "$1" -S "$2" --show-depends "$module" > "$1/depends" ||
      fail "kernel $2 has no module $module"
    sed -n 's/^insmod //p' "$1/depends"
  done | sort -u | while read -r file; do
    install -D -m 644 "$file" "$tree/${file#"$1/"}"
  done
  cp "$1/lib/modules/$2"/modules.* "$tree/lib/modules/$2/"
  (cd "$tree" && find . -print0 | cpio --quiet --null --create --format newc --owner 0:0) |
    gzip -1 > "$3"
}

build_image() {  # build_image KERNEL_DEB FOLDER
  local version
  unpacked=$(mktemp -d "$cache/unpacked-XXXXXX")
  mkdir "$unpacked/image"
  dpkg-deb -x "$1" "$unpacked" || { rm -f "$1"; fail "$1 is damaged, and removed: run this again"; }
  version=$(basename "$unpacked"/lib/modules/*)
  PATH=$PATH:/usr/sbin:/sbin depmod -b "$unpacked" "$version"
  python3 "$here/unpack_kernel.py" "$unpacked/boot/vmlinuz-$version" "$unpacked/image/kernel" ||
    mv "$unpacked/boot/vmlinuz-$version" "$unpacked/image/kernel"  # also boots, some seconds slower
  PATH=$PATH:/usr/sbin:/sbin build_initramfs "$unpacked" "$version" "$unpacked/image/initramfs"
  mv "$unpacked/image" "$2"
  rm -rf "$unpacked"
}

# Sets `image`. One process at a time builds it: others wait and then use it.
prepare_image() {
  local recipe lock deb
  { mkdir -p "$cache" && : >> "$cache/lock"; } 2> /dev/null ||
    fail "the images' folder, $cache, cannot be written; XDG_CACHE_HOME names another one"
  exec {lock}> "$cache/lock"
  flock "$lock"
  [ -n "$offline" ] || fetch_kernel ||
    { as_root apt-get update -q > /dev/null 2>&1 && fetch_kernel; } ||
    echo "soft-roce: no newer kernel: $(tail -n 1 "$run/apt.log")" >&2
  deb=$(find "$cache" -maxdepth 1 -name 'kernel-*.deb' | head -n 1)
  [ -n "$deb" ] || skip "no kernel in $cache; run.sh --prepare fetches one with apt-get download"
  recipe=$(cat "$here/image.sh" "$here/unpack_kernel.py" "$here/guest/init" | sha256sum | cut -c 1-12)
  image=$(basename "${deb#"$cache/kernel-"}" .deb)
  image=$cache/$image-$recipe
  if [ ! -e "$image" ]; then
    echo "soft-roce: building $image" >&2
    build_image "$deb" "$image"
  fi
  touch "$image"
  find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +
  exec {lock}>&-
}
