#!/usr/bin/env bash
# Regenerates requirements/*.txt: every version and hash, for Python 3.11 and newer, on all platforms.
# Versions already locked are kept unless `--upgrade` (or `--upgrade-package NAME`) is given.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON="${PYTHON:-python3}"
UV_VERSION="0.13.7"

# Whatever this machine uses as a mirror or a local wheel folder must not shape the lock.
for name in $(compgen -e); do
    case "$name" in
        PIP_FIND_LINKS | PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_NO_INDEX | UV_*) unset "$name" ;;
    esac
done

tools="$(mktemp -d)"
trap 'rm -rf "$tools"' EXIT
"$PYTHON" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"

EXTRAS=(--extra io --extra data --extra excel --extra gym --extra lp --extra sign --extra service --extra postgres)

compile() { # compile OUTPUT INPUT...
    local output="$1"
    shift
    # One version per package on every Python ("fewest"): a result then differs by interpreter only.
    "$tools/venv/bin/uv" pip compile --no-config --quiet --universal --python-version 3.11 \
        --fork-strategy fewest --generate-hashes --strip-extras --no-emit-package ucsearch \
        --custom-compile-command "scripts/lock.sh" \
        --output-file "$output" "$@"
    if grep -nE '^ *(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)|://|file:' "$output"; then
        echo "lock.sh: $output names a package source (lines above); it must not." >&2
        exit 1
    fi
}

compile requirements/run.txt pyproject.toml requirements/run.in "$@"
compile requirements/dev.txt "${EXTRAS[@]}" pyproject.toml requirements/dev.in --constraints requirements/run.txt "$@"
grep -E '^[a-zA-Z0-9_.-]+==' requirements/dev.txt | grep -v '^typer==' | sed 's/ .*//' > "$tools/versions.txt" # openapi-python-client holds typer back
compile requirements/full.txt "${EXTRAS[@]}" pyproject.toml requirements/full.in --constraints "$tools/versions.txt" "$@"
compile requirements/docs.txt requirements/docs.in "$@"
