#!/usr/bin/env bash
# Installs the Debian packages of the named groups (build, browser, documents, corpora, opencl, lint, deb, fresh, arm64) that are missing. Asks
# the package manager only when something is missing, so a machine that has everything needs no root.
# A user who cannot become root without being asked for a password gets the command to pass on.
set -euo pipefail

# Boost 1.81 or later: the one that Debian 12 calls libboost-dev is older.
boost=libboost-dev
# Spark needs Java 17 or 21; each Debian has one of them.
java=openjdk-21-jre-headless
[[ $(. /etc/os-release && echo "${VERSION_CODENAME:-}") != bookworm ]] || boost=libboost1.81-dev java=openjdk-17-jre-headless

declare -A groups=(
  [build]="g++ cmake ninja-build ccache pkgconf libdnnl-dev libhwy-dev nlohmann-json3-dev
           libcli11-dev libfmt-dev libutf8proc-dev libpugixml-dev libsqlite3-dev libstemmer-dev
           libmd4c-dev libmd4c-html0-dev libcurl4-openssl-dev libssl-dev zlib1g-dev liblzma-dev libzstd-dev $boost libgtest-dev libgmock-dev librapidcheck-dev python3 python3-dev python3-venv python3-pip"
  [browser]="chromium chromium-driver fonts-dejavu-core curl"
  [documents]="poppler-utils"
  [corpora]="$java"
  [opencl]="ocl-icd-libopencl1 pocl-opencl-icd libclblast1"
  [lint]="clang clang-format clang-tidy libomp-dev"
  [deb]="dpkg-dev file gzip"
  [fresh]="debootstrap git"
  [arm64]="g++-aarch64-linux-gnu cmake ninja-build ccache pkgconf file python3 qemu-user-static"
)
# A build for arm64 takes the libraries of that architecture; headers alone are for all.
for package in ${groups[build]}; do
  case $package in
    libcli11-dev | nlohmann-json3-dev) groups[arm64]+=" $package" ;;
    lib*-dev | zlib1g-dev) groups[arm64]+=" $package:arm64" ;;
  esac
done

missing=()
for group in "${@:-build}"; do
  [[ -v groups[$group] ]] || { echo "packages.sh: no group '$group'; there are: ${!groups[*]}" >&2; exit 2; }
  for package in ${groups[$group]}; do
    state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    [[ $state == ii* || $state == hi* ]] || missing+=("$package")
  done
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  as_root=(sudo -n)
  if ! sudo -n true 2>/dev/null; then
    echo "packages.sh: these Debian packages are missing, and installing them needs root:" >&2
    printf '  %s\n' "${missing[@]}" >&2
    echo "As root: apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
