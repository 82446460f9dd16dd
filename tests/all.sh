#!/usr/bin/env bash
# The complete suite, variant by variant. See --help.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
bash tests/all.sh [options]     runs everything, and prints one table

  clang     all host tests and all of real RDMA          gcc       with g++-12
  asan      AddressSanitizer and UBSan                   fuzz      each target for 8 s, those of cordma-kv for 20 s
  tsan      ThreadSanitizer                              builds    every build type with both compilers
  newcomer  the README's first command on four bare machines, the installation, and the README's programs

  --from VARIANT   start with this variant, and take the results of those before it from the last run
  --only VARIANT   this variant alone
  --list           print the variants
  --help           this text

Logs and results lie in build-all. A variant runs even if one before it failed. Exits with 0 if all passed on this
commit; a newcomer without the right to make a chroot counts as skipped.
TEXT
}
fail() { printf 'all.sh: %s; --help lists the options\n' "$*" >&2; exit 2; }

variants=(clang gcc asan fuzz tsan builds newcomer)
known() { [[ " ${variants[*]} " == *" ${1-} "* ]] || fail "a variant is one of ${variants[*]}, not '${1-}'"; }
from='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    --from) known "${2-}"; from=$2; shift ;;
    --only) known "${2-}"; only=$2; shift ;;
    --list) printf '%s\n' "${variants[@]}"; exit 0 ;;
    --help | -h) usage; exit 0 ;;
    *) fail "unknown option '$1'" ;;
  esac
  shift
done

cd "$root" || exit
results=$root/build-all commit=$(git rev-parse --short HEAD 2> /dev/null || echo unknown)
[ -z "$(git status --porcelain 2> /dev/null)" ] || commit+=-dirty
mkdir -p "$results" || exit
export CCACHE_DISABLE=1

# Compiles the next variants with the processor time that the virtual machines leave. A failure is
# reported when the variant runs.
build_ahead() {
  local variant
  for variant in "--gcc --no-soft-roce" --asan --tsan; do
    # shellcheck disable=SC2086  # words
    nice -n 19 bash tests/run.sh $variant --build-only || true
  done
}
run_variant() {
  case $1 in
    clang)
      bash tests/run.sh --build-only || return
      if [ -z "$only" ]; then build_ahead > /dev/null 2>&1 & fi
      bash tests/run.sh
      ;;
    gcc) bash tests/run.sh --gcc --no-soft-roce ;;
    asan) bash tests/run.sh --asan ;;
    fuzz)
      local code=0
      bash tests/run.sh --fuzz 8 || code=1
      bash tests/run.sh --fuzz 20 --filter '^kv_' --jobs 3 || code=1
      return $code
      ;;
    tsan) bash tests/run.sh --tsan ;;
    builds) bash tests/builds.sh ;;
    newcomer) bash tests/newcomer/run.sh ;;
  esac
}
# The numbers in a log: ctest's sums if it contains any.
summary() {  # summary LOG
  awk '/% tests passed,/ { failed += $4; total += $NF; seen = 1 } /\(Skipped\)$/ && !/Test +#/ { ++skipped }
    /^fuzzed [0-9]+ targets/ { fuzzed += $2 } / built in [0-9]+ s$/ { ++built } /^ +[0-9]+ s  / { ++steps }
    END { if (seen) printf "%d tests, %d failed, %d skipped", total, failed, skipped; else if (fuzzed) printf "%d targets", fuzzed
      else if (steps) printf "%d steps", steps; else if (built) printf "%d builds", built }' "$1"
}

started=''
for variant in "${variants[@]}"; do
  [ -z "$only" ] || [ "$variant" = "$only" ] || continue
  [ "$variant" != "$from" ] || from=''
  [ -z "$from" ] || continue
  echo "##### $variant"
  log=$results/$variant.log code=0 started=$SECONDS
  rm -f "$results/$variant.result"
  run_variant "$variant" 2>&1 | tee "$log" || code=$?
  case $code in 0) result=passed ;; 77) result=skipped ;; *) result=FAILED ;; esac
  printf '%s|%s|%d s|%s|%s\n' "$variant" $result $((SECONDS - started)) \
    "$(summary "$log")" "$commit" > "$results/$variant.result"
done

worst=0 other=''
{
  echo "variant|result|time|what|commit"
  for variant in "${variants[@]}"; do
    cat "$results/$variant.result" 2> /dev/null || echo "$variant|not run|||"
  done
} > "$results/table"
awk -F'|' '{ printf "%-10s %-8s %8s  %-36s %s\n", $1, $2, $3, $4, $5 }' "$results/table"
for variant in "${variants[@]}"; do
  [ -z "$only" ] || [ "$variant" = "$only" ] || continue
  grep -Eq '\|(passed|skipped)\|' "$results/$variant.result" 2> /dev/null || worst=1
  grep -Fqx -e "$commit" <(cut -d '|' -f 5 "$results/$variant.result" 2> /dev/null) || { worst=1; other+=" $variant"; }
done
[ -z "$other" ] || echo "not run on $commit:$other"
exit $worst
