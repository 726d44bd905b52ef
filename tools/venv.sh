#!/usr/bin/env bash
# venv.sh FOLDER REQUIREMENTS: a virtual environment with exactly these requirements. A stamp with
# the hash of the file makes later calls free, and a changed file starts the folder anew.
set -euo pipefail
folder=$1 requirements=$2 python=${PYTHON:-python3}

stamp=$(cat "$requirements" <("$python" --version) | sha256sum | cut -d' ' -f1)
[[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]] && exit 0
[[ ! -e $folder || -f $folder/pyvenv.cfg ]] ||
  { echo "venv.sh: $folder exists and is not a virtual environment" >&2; exit 1; }

echo "Python packages of $requirements into $folder"
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
echo "$stamp" >"$folder/stamp"
