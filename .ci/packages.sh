# Sourced by the scripts that need Debian packages.

missing_packages() {  # missing_packages PACKAGE...: prints the packages that are not installed
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
      echo "$package"
  done
}

# install_packages PACKAGE...: installs the missing packages, as root or with sudo. Returns 0 at once if none is
# missing. On failure prints one sentence with the cause and the command that helps, and returns 1. Prints to
# standard error only.
install_packages() {
  local missing as_root=() log code=0 cause
  command -v dpkg-query > /dev/null || { echo "This is not a Debian system; needed here: $*" >&2; return 0; }
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo > /dev/null || { ! sudo -n true 2> /dev/null && [ ! -t 0 ]; }; then
      echo "Packages are missing and sudo cannot install them; as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}" >&2
  log=$(mktemp) || return 1
  # An unreachable source matters only if a package is then unavailable.
  "${as_root[@]}" apt-get update -q > "$log" 2>&1 || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" >> "$log" 2>&1 || code=$?
  if [ "$code" -ne 0 ]; then
    # The first cause: a server that was not reached, else the first error.
    cause=$(grep -m1 -oE '(Could not|Temporary failure|Unable to) (resolve|resolving|connect)[^(]*|No space left on device' \
      "$log") || cause=$(sed -n 's/^E: //p' "$log" | head -n 1)
    echo "apt-get could not install ${missing[*]}: ${cause:-exit code $code}" >&2
  fi
  rm -f "$log"
  return "$((code != 0))"
}
