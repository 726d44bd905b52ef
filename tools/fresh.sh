#!/usr/bin/env bash
# fresh.sh [--short | --arm64 [--rooms LIST] | --deb | --kept [--quickstart | --sample [--base COMMIT] [--seconds N] [--seed WORD]]]: the README's commands on a machine
# that nobody has prepared: a minimal Debian made by debootstrap, a clone of HEAD, and nothing but what the
# commands install themselves. A warning of the compiler fails. Needs root.
#
# --short       only what configuring needs: packages, cmake, a program that finds the installed package
# --kept        in a root that stays for the next time, with its packages, up to 30 days: the program is built
#               and tested
# --arm64       in a root that stays too: built by a cross compiler for arm64, the C++ tests under an emulator
# --rooms       there the tests of these rooms of src/ alone, one after the other: "kernels ops"
# --deb         in the root of --kept: the Debian packages of that Debian, in build-deb/packages there
# --quickstart  there `make quickstart`, and its answers are those of the README
# --sample      there its clang reads sources for N seconds, and tests run for N seconds: first those that
#               differ from COMMIT, then those that the seed draws
# SUITE         bookworm (Debian 12) or trixie (Debian 13)
# JOBS          compilers at once for arm64, as many as processors unless set
# DEBIAN_MIRROR where packages come from, if not debootstrap's default
# KEEP=1        leaves the root there for a look
set -Eeuo pipefail
cd "$(dirname "$0")/.."

suite=${SUITE:-bookworm}
mode=whole sample= quickstart= rooms= base=HEAD seconds=60 seed=$RANDOM
arguments=("$@")
while (($#)); do
  case $1 in
    --short | --kept | --arm64 | --deb) mode=${1#--}; shift; continue ;;
    --sample | --quickstart) declare "${1#--}=1"; shift; continue ;;
    --base | --seconds | --seed | --rooms) (($# > 1)) || { echo "fresh.sh: $1 needs a value" >&2; exit 2; } ;;
    *) echo "fresh.sh: expected --short, --arm64, --deb, --kept, --sample, --quickstart, --rooms, --base, --seconds or --seed, found '$1'" >&2; exit 2 ;;
  esac
  declare "${1#--}=$2"
  shift 2
done
((EUID == 0)) || { echo "fresh.sh: needs root, for debootstrap and chroot" >&2; exit 1; }

# Folder that stays from run to run: results of compilers, and the root of --kept.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longformer/fresh-$suite
stays=
if [[ $mode == kept || $mode == arm64 || $mode == deb ]]; then stays=1; fi
if [[ $mode == arm64 ]]; then cache+=-arm64; fi
mkdir -p "$cache/ccache"

# In mounts of its own, which end with this process.
if [[ -z ${LONGFORMER_FRESH_ROOT:-} ]]; then
  if [[ -n $stays ]]; then
    LONGFORMER_FRESH_ROOT=$cache/root KEEP=1
    exec 9>"$cache/lock"
    flock 9
  else
    LONGFORMER_FRESH_ROOT=$(mktemp -d "${TMPDIR:-/var/tmp}/longformer-fresh.XXXXXX")
  fi
  export LONGFORMER_FRESH_ROOT
  status=0
  unshare --mount --propagation private "$0" "${arguments[@]}" || status=$?
  if [[ -n ${KEEP:-} ]]; then
    echo "kept: $LONGFORMER_FRESH_ROOT"
  else
    rm -rf "$LONGFORMER_FRESH_ROOT"
  fi
  exit "$status"
fi
root=$LONGFORMER_FRESH_ROOT
home=/root/longformer.cpp

inside() {
  # A proxy and its certificates belong to the network, not to the machine.
  local kept=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
    SSL_CERT_FILE=/etc/network.crt PIP_CERT=/etc/network.crt)
  local name
  for name in http_proxy https_proxy no_proxy PIP_INDEX_URL; do
    [[ -v $name ]] && kept+=("$name=${!name}")
  done
  chroot "$root" env -i "${kept[@]}" bash -c "cd $home 2>/dev/null || cd /; $1" </dev/null
}

step() {
  local begin=$SECONDS
  what=$1
  shift
  echo "--- fresh $suite: $what"
  "$@"
  echo "--- fresh $suite: $what: $((SECONDS - begin)) s"
}
trap 'echo "--- fresh $suite: $what FAILED" >&2' ERR

# A root becomes whole at once or not at all.
bootstrap() {
  local log=$root.log
  if [[ -n $stays && -n $(find "$root/etc/longformer-fresh" -mtime -30 2>/dev/null) ]]; then return; fi
  rm -rf "$root" "$root.new"
  mkdir -m 755 "$root.new"
  debootstrap --variant=minbase "$suite" "$root.new" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$log" 2>&1 ||
    { tail -20 "$log" >&2; return 1; }
  rm "$log"
  touch "$root.new/etc/longformer-fresh"
  mv "$root.new" "$root"
}

# A clone that stays gets what differs, so its build goes on where the last one ended.
current_clone() {
  local head
  head=$(git rev-parse HEAD)
  if [[ $(git -C "$root$home" rev-parse HEAD 2>/dev/null) == "$head" ]]; then return; fi
  { git -C "$root$home" fetch --quiet "$PWD" HEAD && git -C "$root$home" checkout --quiet --force --detach "$head" &&
    git -C "$root$home" clean --quiet -fd; } 2>/dev/null && return
  rm -rf "$root$home"
  git clone --quiet --no-hardlinks . "$root$home"
}

make_root() {
  bootstrap
  mkdir -p "$root/root/.cache/ccache"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  # PoCL 6 ends the process where there is no /sys.
  mount --rbind /sys "$root/sys"
  mount --bind "$cache/ccache" "$root/root/.cache/ccache"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  # An installed Debian has these names; the browser looks for itself under one.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/network.crt"
  current_clone
  if [[ $mode == short || -x $root/usr/bin/make && -x $root/usr/bin/git ]]; then return; fi
  inside "apt-get update -qq && apt-get install -y -qq --no-install-recommends git make ca-certificates >/dev/null"
}

# Who is not root is told what is missing; nothing asks for a password.
refuses_without_root() {
  local said
  said=$(inside "chmod 755 /root; setpriv --reuid=nobody --clear-groups tools/packages.sh build 2>&1") &&
    { echo "packages.sh succeeded without root"; return 1; }
  [[ $said == *libdnnl-dev*"As root: apt-get"* ]] || { echo "packages.sh said: $said"; return 1; }
}

# An empty archive stands for the library: configuring does not read it.
consumer_configures() {
  inside "ar rcs build/liblongformer.a && cmake --install build --component library >/dev/null &&
    cmake -S examples/embed -B /tmp/embed -G Ninja"
}

# Runs a command whose words are kept in $root/said.log. The compiler cache repeats warnings as well.
without_warnings() {
  inside "$1" 2>&1 | tee "$root/said.log"
  if grep -F ' warning: ' "$root/said.log"; then
    echo "expected no warnings, found those above"
    return 1
  fi
}

# The passages that the README prints are those that the quickstart finds.
quickstart_answers() {
  without_warnings "make quickstart"
  local found=0 file range
  while read -r file range; do
    grep -qE "^ +1\. +[0-9.]+ +$file +characters $range( |\$)" "$root/said.log" ||
      { echo "the README's answer $file $range is not what the quickstart found"; return 1; }
    found=$((found + 1))
  done < <(sed -nE 's/^  1\. [0-9.]+ +(\S+\.txt) +characters ([0-9-]+)( .*)?$/\1 \2/p' README.md)
  ((found == 3)) || { echo "expected 3 answers in README.md, found $found"; return 1; }
}

tests_pass() {
  # Ray and Spark are 1.5 GB, which no command of the README needs.
  without_warnings "make test CORPORA_VENV="
  grep -qE "^100% tests passed, 0 tests failed out of [0-9]+" "$root/said.log"
}

package_installs() {
  inside "python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --quiet . && cd / &&
    /tmp/venv/bin/python -c 'import longformer_cpp; print(longformer_cpp.__version__)' && /tmp/venv/bin/longformer --version"
}

# Nothing stays behind, not even the folder.
program_goes_again() {
  inside "make install PREFIX=/opt/longformer && /opt/longformer/bin/longformer --version &&
    make uninstall PREFIX=/opt/longformer && ! ls /opt/longformer 2>/dev/null"
}

# Only the sample needs clang.
program_builds() {
  inside "tools/packages.sh build ${sample:+lint} >/dev/null && make test-venv"
  without_warnings "make build"
}

program_works() {
  program_builds
  inside "\$HOME/.cache/longformer/test/bin/python -m pytest -q -p no:cacheprovider tests/apps/cli/cli_test.py"
}

# Warnings only; clang-tidy asks for one check beside them.
clang_reads() {
  inside "cmake --preset release -B build/tidy -DCMAKE_CXX_COMPILER=clang++ -DLONGFORMER_TESTS=OFF >/dev/null &&
    python3 tools/tidy.py --checks='-*,clang-diagnostic-*,misc-definitions-in-headers' \
      --sample --base $base --seconds $seconds --seed $seed"
}

# Tests that differ from the base come first.
drawn_tests() {
  git diff --name-only --diff-filter=d "$base" -- 'tests/*/*_test.cc' 'tests/apps/cli/cli_*_test.py'
  git ls-files 'tests/*/*_test.cc' 'tests/apps/cli/cli_*_test.py' | shuf --random-source=<(yes "$seed" || true)
}

drawn_tests_pass() {
  local end=$((SECONDS + seconds)) name file program count=0
  while read -r file; do
    ((SECONDS < end)) || break
    name=$(basename "${file%.*}")
    echo "$name"
    if [[ $file == *.py ]]; then
      inside "\$HOME/.cache/longformer/test/bin/python -m pytest -q -p no:cacheprovider $file"
    else
      program=$(basename "$(dirname "$file")")_test
      without_warnings "cmake --build build --target $program && build/tests/$program --file=$name --gtest_brief=1"
    fi
    count=$((count + 1))
  done < <(drawn_tests | awk '!seen[$0]++')
  echo "$count tests of --seed $seed"
}

# Libraries of arm64 beside those of the root; programs that the build runs are the root's.
arm64_packages() {
  inside "dpkg --add-architecture arm64 && apt-get update -qq && tools/packages.sh arm64"
}

arm64_builds() {
  without_warnings "cmake --preset arm64 && cmake --build --preset arm64 -j ${JOBS:-$(nproc)} -- -k 0"
  inside "qemu-aarch64-static build/arm64/longformer --version && file -b build/arm64/longformer | grep -q aarch64"
}

arm64_tests_pass() {
  without_warnings "ctest --preset arm64"
  grep -qE "^100% tests passed, 0 tests failed out of [0-9]+" "$root/said.log"
}

# All cases of a room in one process: an emulator starts slowly.
arm64_room_passes() {
  without_warnings "cmake --preset arm64 >/dev/null && cmake --build --preset arm64 -j ${JOBS:-$(nproc)} --target $1_test"
  inside "OMP_WAIT_POLICY=passive timeout 1500 qemu-aarch64-static build/arm64/tests/$1_test --gtest_brief=1 \
    --gtest_filter='-*LongDocuments*:HugeTexts.*'"
}

step "a minimal root, a clone of HEAD" make_root
if [[ $mode == arm64 ]]; then
  step "packages of arm64" arm64_packages
  if [[ -n $rooms ]]; then
    for room in $rooms; do step "C++ tests of $room under an emulator" arm64_room_passes "$room"; done
    exit 0
  fi
  step "the program for arm64" arm64_builds
  step "C++ tests under an emulator" arm64_tests_pass
  exit 0
fi
if [[ $mode == deb ]]; then
  step "make deb" without_warnings "tools/packages.sh build deb >/dev/null && make deb"
  exit 0
fi
if [[ $mode == kept ]]; then
  if [[ -n $sample ]]; then
    step "make build" program_builds
    step "sources that clang reads" clang_reads
    step "tests" drawn_tests_pass
  elif [[ -n $quickstart ]]; then
    step "make quickstart" quickstart_answers
  else
    step "make build, and the tests of the program" program_works
  fi
  exit 0
fi
step "without root: the missing packages are told" refuses_without_root
if [[ $mode == short ]]; then
  step "packages" inside "tools/packages.sh build >/dev/null"
  step "cmake --preset release" inside "cmake --preset release"
  step "a program finds the installed package" consumer_configures
else
  step "make quickstart" quickstart_answers
  step "make install, make uninstall" program_goes_again
  step "make test" tests_pass
  step "pip install ." package_installs
fi
