# Sourced by the scripts that need Debian packages.

missing_packages() {  # missing_packages PACKAGE...: prints those that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
      echo "$package"
  done
}

# install_packages PACKAGE...: installs what is missing, as root or by sudo; where nothing is, nothing
# is done. Fails, saying why, where they cannot be had. Speaks to standard error only.
install_packages() {
  local missing as_root=()
  command -v dpkg-query > /dev/null || { echo "not a Debian system; needed: $*" >&2; return 0; }
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
      { echo "missing packages: ${missing[*]}; install them, or run as root" >&2; return 1; }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}" >&2
  { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"; } > /dev/null ||
    { echo "could not install: ${missing[*]}" >&2; return 1; }
}
