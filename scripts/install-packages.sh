#!/usr/bin/env bash
# Installs the Debian packages that are missing, by group:
#   scripts/install-packages.sh build test lint
# Queries dpkg first, so that nothing runs as root if no package is missing.
set -euo pipefail

usage() {
  echo "usage: scripts/install-packages.sh {build|test|web|browser|node|lint|bench|mpi|neon|avx512|python|wheel|docs|deb|debian}..." >&2
  exit 2
}
(($# > 0)) || usage

release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID-}" || true)  # of Debian
packages=()
for group in "$@"; do
  case $group in
    # oneDNN's CMake package requires OpenCL; its Debian package only recommends it.
    build) packages+=(make cmake ninja-build g++ libfmt-dev libhwy-dev libdnnl-dev ocl-icd-opencl-dev
                      libeigen3-dev nlohmann-json3-dev libcli11-dev pkg-config
                      libmicrohttpd-dev bible-kjv) ;;  # the last: what study trains on
    test)  packages+=(libgtest-dev libgmock-dev librapidcheck-dev) ;;
    web)   packages+=(clang-19 lld-19 llvm-19 wasi-libc libc++-19-dev-wasm32
                      libclang-rt-19-dev-wasm32) ;;
    browser) packages+=(chromium-headless-shell) ;;  # the same engine, without windows
    node)  packages+=(npm) ;;
    # clang needs its own omp.h for sources that are built with -fopenmp, and its runtime for fuzzers.
    lint)  packages+=(clang clang-format clang-tidy libclang-rt-dev libomp-dev mypy valgrind) ;;
    bench) packages+=(libbenchmark-dev python3-torch python3-numpy libopenblas0-openmp)
           [[ $release != 13 ]] || packages+=(python3-onnx python3-onnxruntime
                                              python3-setuptools libtorch-dev libsleef-dev) ;;  # torch.compile's
    python) packages+=(python3-numpy python3-torch python3-pytest
                       python3-hypothesis python3-markdown-it)
            [[ $release != 13 ]] || packages+=(python3-onnx python3-onnxruntime
                                               python3-setuptools libtorch-dev libsleef-dev) ;;  # torch.compile's
    wheel) packages+=(cmake ninja-build g++ libfmt-dev libhwy-dev libeigen3-dev nlohmann-json3-dev
                      libcli11-dev python3-venv binutils) ;;
    docs)  packages+=(doxygen python3-sphinx python3-breathe python3-myst-parser furo
                      python3-sphinx-copybutton) ;;
    # Tools that build and test Debian packages, the shells whose completion is tested, and abidiff.
    deb)   packages+=(dpkg-dev file lintian mmdebstrap mandoc fish zsh abigail-tools) ;;
    debian) packages+=(mmdebstrap rsync) ;;  # what makes another Debian to build in
    mpi)   packages+=(libopenmpi-dev openmpi-bin) ;;
    # 64-bit ARM: a cross compiler, its libraries, and an emulator for its programs.
    neon)  packages+=(g++-aarch64-linux-gnu qemu-user libfmt-dev:arm64 libhwy-dev:arm64
                      libgmock-dev:arm64 librapidcheck-dev:arm64 libgomp1:arm64) ;;
    # AVX-512: an emulator of PCs, and tools that build a bootable disc.
    avx512) packages+=(bochs bochs-term busybox-static isolinux syslinux-common xorriso cpio) ;;
    *)     usage ;;
  esac
done

format='${Package}:${Architecture}=${db:Status-Status} '
installed=" $(dpkg-query -W -f "$format" "${packages[@]}" 2>/dev/null || true)"
missing=()
native=$(dpkg --print-architecture)
for package in "${packages[@]}"; do
  [[ $installed == *" $package:all=installed "* ]] && continue
  [[ $package == *:* ]] && qualified=$package || qualified=$package:$native
  [[ $installed == *" $qualified=installed "* ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

give_up() {
  echo "install-packages: $1; please install: ${missing[*]}" >&2
  exit 2
}
command -v apt-get >/dev/null || give_up "no apt-get here (made for Debian 12 and 13)"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || give_up "neither root nor sudo"
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@" >/dev/null
}
echo "Installing ${missing[*]}"
[[ ${missing[*]} != *:arm64* ]] || "${as_root[@]}" dpkg --add-architecture arm64
# Package lists are fetched only if they are absent or too old.
apt install -y --no-install-recommends "${missing[@]}" 2>/dev/null || {
  apt update
  apt install -y --no-install-recommends "${missing[@]}"
}
