#!/usr/bin/env bash
# fresh.sh [--short]: the README's commands on a machine that nobody has prepared: a minimal Debian made by
# debootstrap, a clone of HEAD, and nothing but what the commands install themselves. Needs root.
#
# --short       only what configuring needs: packages, cmake, a program that finds the installed package
# SUITE         bookworm (Debian 12); trixie is Debian 13
# DEBIAN_MIRROR where packages come from, if not debootstrap's default
# KEEP=1        leaves the root there for a look
set -Eeuo pipefail
cd "$(dirname "$0")/.."

suite=${SUITE:-bookworm}
short=false
case ${1:-} in
  --short) short=true ;;
  "") ;;
  *) echo "fresh.sh: expected --short or nothing, found '$1'" >&2; exit 2 ;;
esac
((EUID == 0)) || { echo "fresh.sh: needs root, for debootstrap and chroot" >&2; exit 1; }

# In mounts of its own, which end with this process.
if [[ -z ${LONGFORMER_FRESH_ROOT:-} ]]; then
  LONGFORMER_FRESH_ROOT=$(mktemp -d "${TMPDIR:-/var/tmp}/longformer-fresh.XXXXXX")
  chmod 755 "$LONGFORMER_FRESH_ROOT"
  export LONGFORMER_FRESH_ROOT
  status=0
  unshare --mount --propagation private "$0" "$@" || status=$?
  [[ -n ${KEEP:-} ]] && echo "kept: $LONGFORMER_FRESH_ROOT" || rm -rf "$LONGFORMER_FRESH_ROOT"
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
  chroot "$root" env -i "${kept[@]}" bash -c "cd $home 2>/dev/null || cd /; $1"
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

make_root() {
  debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$root.log" 2>&1 ||
    { tail -20 "$root.log" >&2; return 1; }
  rm "$root.log"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  # An installed Debian has these names; the browser looks for itself under one.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/network.crt"
  git clone --quiet --no-hardlinks . "$root$home"
  if $short; then return; fi
  inside "apt-get update -qq && apt-get install -y -qq --no-install-recommends git make ca-certificates >/dev/null"
}

# Who is not root is told what is missing; nothing asks for a password.
refuses_without_root() {
  local said
  said=$(inside "chmod 755 /root; setpriv --reuid=nobody --clear-groups tools/packages.sh build </dev/null 2>&1") &&
    { echo "packages.sh succeeded without root"; return 1; }
  [[ $said == *libdnnl-dev*"As root: apt-get"* ]] || { echo "packages.sh said: $said"; return 1; }
}

# An empty archive stands for the library: configuring does not read it.
consumer_configures() {
  inside "ar rcs build/liblongformer.a && cmake --install build --component library >/dev/null &&
    cmake -S examples/embed -B /tmp/embed -G Ninja"
}

# The passages that the README prints are those that the quickstart finds.
quickstart_answers() {
  inside "make quickstart" | tee "$root/quickstart.log"
  local found=0 file range
  while read -r file range; do
    grep -qE "^ +1\. +[0-9.]+ +$file +characters $range( |\$)" "$root/quickstart.log" ||
      { echo "the README's answer $file $range is not what the quickstart found"; return 1; }
    found=$((found + 1))
  done < <(sed -nE 's/^  1\. [0-9.]+ +(\S+\.txt) +characters ([0-9-]+)( .*)?$/\1 \2/p' README.md)
  ((found == 3)) || { echo "expected 3 answers in README.md, found $found"; return 1; }
}

tests_pass() {
  inside "make test" | tee "$root/test.log"
  grep -qE "^100% tests passed, 0 tests failed out of [0-9]+" "$root/test.log"
}

package_installs() {
  inside "python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --quiet . && cd / &&
    /tmp/venv/bin/python -c 'import longformer_cpp; print(longformer_cpp.__version__)'"
}

step "a minimal root, a clone of HEAD" make_root
step "without root: the missing packages are told" refuses_without_root
if $short; then
  step "packages" inside "tools/packages.sh build >/dev/null"
  step "cmake --preset release" inside "cmake --preset release"
  step "a program finds the installed package" consumer_configures
else
  step "make quickstart" quickstart_answers
  step "make test" tests_pass
  step "pip install ." package_installs
fi
