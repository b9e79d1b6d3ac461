#!/bin/sh
# Usage: setup.sh [build|docs|conformance|arm64|abi|debian|ci]
# Checks that what Facula is built from is there, and says nothing if it is. On Debian and Ubuntu the missing packages are
# installed with apt; elsewhere their names are printed. FACULA_NO_INSTALL=1 only prints. ONEDNN=OFF, SLEEF=OFF and LAPACK=OFF build
# without.
set -eu

group=${1:-build}
cc=${CC:-cc}
missing=

need() { case "$missing " in *" $1 "*) ;; *) missing="$missing $1" ;; esac; }
has_command() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | "$cc" -E -x c - >/dev/null 2>&1; }
has_library() { [ -e "$("$cc" -print-file-name="$1")" ]; }
cannot_install() { ! has_command apt-get || [ -n "${FACULA_NO_INSTALL:-}" ]; }
has_python() { python=${PYTHON:-$(PATH=/usr/bin:$PATH command -v python3)} && "$python" -c "import $1" >/dev/null 2>&1; }

check_build() {
    has_command "$cc" || need gcc
    has_command cmake || need cmake
    has_command ninja || need ninja-build
    has_command python3 || need python3
    has_command pkg-config || need pkg-config
    if ! has_command "$cc"; then cc=false; fi
    has_header yaml.h || need libyaml-dev
    [ "${ONEDNN:-ON}" = OFF ] || has_header oneapi/dnnl/dnnl.h || need libdnnl-dev
    [ "${SLEEF:-ON}" = OFF ] || has_header sleef.h || need libsleef-dev
    [ "${LAPACK:-ON}" = OFF ] || has_library libopenblas.so.0 || { cannot_install && has_library liblapack.so.3; } || need libopenblas0-serial
    has_header jansson.h || need libjansson-dev
    has_header zlib.h || need zlib1g-dev
    has_header cmocka.h || need libcmocka-dev
}

check_conformance() {
    has_python numpy || need python3-numpy
    has_python torch || need python3-torch
}

check_docs() {
    check_build
    has_python sphinx || need python3-sphinx
    has_python myst_parser || need python3-myst-parser
    has_python furo || need furo
    has_command mandoc || need mandoc
    has_command lexgrog || need man-db
}

# The libraries of another architecture lie beside this one's (Debian's multiarch).
check_arm64() {
    check_build
    has_command aarch64-linux-gnu-gcc || need gcc-aarch64-linux-gnu
    has_command qemu-aarch64 || need qemu-user
    for package in libjansson-dev zlib1g-dev libcmocka-dev libopenblas0-serial; do
        dpkg -s "$package:arm64" >/dev/null 2>&1 || need "$package:arm64"
    done
}

check_abi() {
    has_command abidiff || need abigail-tools
    has_command xz || need xz-utils
}

check_debian() {
    has_command debootstrap || need debootstrap
}

# What may be left out, but is tested.
check_images() {
    has_header png.h || need libpng-dev
    has_header jpeglib.h || need libjpeg62-turbo-dev
    has_python PIL || need python3-pil
}

check_ci() {
    check_images
    check_arm64
    check_abi
    check_docs
    check_conformance
    has_command clang || need clang
    has_command clang-format || need clang-format
}

print_other_families() {
    echo "Facula needs these, by their Debian names:$missing"
    echo "  Fedora:   sudo dnf install gcc cmake ninja-build python3 pkgconf-pkg-config libyaml-devel onednn-devel sleef-devel openblas-serial jansson-devel" \
         "zlib-devel libcmocka-devel"
    echo "  Arch:     sudo pacman -S gcc cmake ninja python pkgconf libyaml onednn sleef openblas lapack jansson zlib cmocka"
    echo "  Homebrew: brew install cmake ninja pkgconf libyaml onednn sleef openblas jansson cmocka"
}

install_with_apt() {
    sudo=
    if [ "$(id -u)" != 0 ]; then
        has_command sudo || { echo "Install as root: apt-get install$missing"; exit 1; }
        sudo=sudo
    fi
    case $missing in *:arm64*) $sudo dpkg --add-architecture arm64 && $sudo apt-get update -q >/dev/null ;; esac
    echo "Installing with apt:$missing"
    # Another installation may be running, such as a fresh machine's own updates: apt waits for it, ten minutes at most.
    install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends"
    # shellcheck disable=SC2086 # the lists are meant to be split
    $install $missing >/dev/null 2>&1 || { $sudo apt-get update -q && $install $missing; }
}

case $group in
build | docs | conformance | arm64 | abi | debian | ci) "check_$group" ;;
*) echo "setup.sh: unknown group '$group'; there are build, docs, conformance, arm64, abi, debian and ci" >&2; exit 2 ;;
esac
[ -n "$missing" ] || exit 0
if cannot_install; then
    print_other_families
    exit 1
fi
install_with_apt
