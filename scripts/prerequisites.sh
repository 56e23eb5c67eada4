#!/usr/bin/env bash
# Prints what `make setup` needs and does not find, and how to get it on Debian.
# Usage: prerequisites.sh PYTHON. Missing build tools fail; missing Java is a warning,
# because only the tests with the official broker need it (they fail by themselves).
set -euo pipefail
python=${1:-python3}
missing=0

need() { # WHAT HOW
    printf 'missing: %s\n    get it: %s\n' "$1" "$2" >&2
}

if [ "$(uname -s)" != Linux ]; then
    need "Linux (mqcore runs on Linux x86-64 and aarch64)" "use a Linux machine or container"
    missing=1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    need "Python 3.11 or newer ($python)" "apt install python3 python3-venv (Debian 12 or newer)"
    missing=1
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    need "Python's venv module" "apt install python3-venv"
    missing=1
fi
if ! command -v cargo >/dev/null; then
    need "Rust 1.85 or newer (cargo)" "install rustup, then: rustup toolchain install stable"
    missing=1
else
    minor=$(cargo --version | sed -E 's/^cargo 1\.([0-9]+).*/\1/')
    if [ "$minor" -lt 85 ]; then
        need "Rust 1.85 or newer (found 1.$minor)" "rustup update stable"
        missing=1
    fi
    for tool in clippy fmt; do
        if ! cargo "$tool" --version >/dev/null 2>&1; then
            need "cargo $tool" "rustup component add clippy rustfmt"
            missing=1
        fi
    done
fi
if ! command -v cc >/dev/null; then
    need "a C linker (cc)" "apt install build-essential"
    missing=1
fi
java=$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' || true)
if [ "${java:-0}" -lt 17 ] || ! command -v javac >/dev/null || ! command -v mvn >/dev/null; then
    need "Java 17 with javac, and Maven: the tests with the official broker will fail" \
        "apt install openjdk-17-jdk-headless maven (or: make test PYTEST=--without-java)"
fi
exit $missing
