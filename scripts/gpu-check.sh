#!/usr/bin/env bash
# Checks everything that needs an NVIDIA GPU, in at most 8 minutes on 16 cores, and prints one table of results:
#   scripts/gpu-check.sh [JOBS]
# It builds the wheel addnorm-cuda and calls its library, builds and runs the CUDA tests, runs the benchmarks of
# docs/kernels-gpu.md, and the Python tests of addnorm.torch on CUDA if PyTorch sees the GPU. Output goes to
# build/gpu-check. The exit status is 1 if a check failed. Without a GPU nothing is run.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
end=$((SECONDS + 480))
out=build/gpu-check

if ! command -v nvidia-smi >/dev/null || ! gpus=$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null) ||
  [[ -z $gpus ]]; then
  echo "no GPU here: nothing was run"
  exit 0
fi
gpu=$(head -1 <<<"$gpus")
architecture=$(sed 's/.*, //; s/\.//' <<<"$gpu")
if [[ -z ${CUDA_HOME:-} ]] && nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null); then
  CUDA_HOME=$(dirname "$(dirname "$(realpath "$nvcc")")") # else the wheel brings a compiler from PyPI
  export CUDA_HOME
fi
rm -rf $out
mkdir -p $out
rows=()
failed=0

# check <name> <command>...: runs the command in the time that is left, and adds a row to the table. Its output is in
# build/gpu-check/<name>.txt, whose last line becomes the row's note. The exit status 77 means that it was skipped.
check() {
  local name=$1 begin=$SECONDS result=passed status=0
  shift
  timeout $((end > SECONDS ? end - SECONDS : 1)) "$@" >"$out/$name.txt" 2>&1 || status=$?
  case $status in
    0) ;;
    77) result=skipped ;;
    124) result="out of time" failed=1 ;;
    *) result="FAILED ($status)" failed=1 ;;
  esac
  rows+=("$(printf '%-12s %-12s %4d s  %s' "$name" "$result" $((SECONDS - begin)) \
    "$(grep -v '^ *$' "$out/$name.txt" | tail -1 | cut -c1-150)")")
  return $status
}

build() {
  cmake --preset cuda -DCMAKE_CUDA_COMPILER="${CUDA_HOME:-$(echo "$PWD"/build/cuda-tools/lib/python3*/site-packages/nvidia/cu13)}/bin/nvcc" \
    -DADDNORM_CUDA_ARCHITECTURES="$architecture" -DADDNORM_INSTRUCTION_SETS=native &&
    cmake --build --preset cuda --parallel "$jobs"
}

# Calls the installed wheel's library: it must accept the GPU.
call_wheel() {
  python3 -m venv --clear $out/venv && $out/venv/bin/pip install --quiet --no-index build/cuda-wheels/*.whl &&
    $out/venv/bin/python -I - <<'PYTHON'
import ctypes, sys
import addnorm_cuda
library = ctypes.CDLL(str(addnorm_cuda.library()))
library.addnorm_cuda_last_error.restype = library.addnorm_cuda_version.restype = ctypes.c_char_p
if library.addnorm_cuda_supports(0, ctypes.c_size_t(4096), ctypes.c_size_t(0)):
    sys.exit(library.addnorm_cuda_last_error().decode())
print("version", library.addnorm_cuda_version().decode(), "supports this GPU")
PYTHON
}

torch_tests() {
  if [[ ! -f tests/python/torch_cuda_test.py ]]; then
    echo "there is no tests/python/torch_cuda_test.py"
    return 77
  fi
  if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "Python has no PyTorch that sees the GPU"
    return 77
  fi
  cmake --preset release -DADDNORM_PYTHON=ON -DADDNORM_INSTRUCTION_SETS=native &&
    cmake --build --preset release --target addnorm_python --parallel "$jobs" &&
    PYTHONPATH=$PWD/build/release/python:$(echo "$PWD"/$out/venv/lib/python3*/site-packages) \
      python3 -B -m pytest -q -p no:cacheprovider tests/python/torch_cuda_test.py
}

export -f build call_wheel torch_tests
export out jobs architecture
check wheel scripts/build-cuda-wheel.sh && check call-wheel bash -c call_wheel
if check build bash -c build; then
  check tests build/cuda/bin/addnorm_cuda_test --gtest_brief=1
  check benchmarks build/cuda/bin/cuda_bench
fi
check torch bash -c torch_tests

echo
[[ ! -s $out/benchmarks.txt ]] || cat $out/benchmarks.txt
echo
echo "$gpu, driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1), $(git log -1 --format=%h 2>/dev/null)"
printf '%s\n' "${rows[@]}"
exit $failed
