#!/usr/bin/env bash
# Builds the wheel addnorm-cuda, the kernels for NVIDIA GPUs as one shared library, in build/cuda-wheels:
#   scripts/build-cuda-wheel.sh [PYTHON]
# No GPU and no installed CUDA are needed: the compiler comes from PyPI, into build/cuda-tools. The first build compiles
# for some minutes. CUDA_HOME names an installed CUDA to use instead, 12.8 or above. Prints the wheel, its size and the
# GPUs that it has code for.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/cuda-tools
build=build/cuda-wheel

if [[ -n ${CUDA_HOME:-} ]]; then
  cuda=$CUDA_HOME
  licence=$(find "$cuda/" -maxdepth 2 -name EULA.txt -o -maxdepth 2 -name LICENSE | head -1)
else
  if ! ls $tools/lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump >/dev/null 2>&1; then
    "${1:-python3}" -m venv --clear $tools
    $tools/bin/pip install --quiet --disable-pip-version-check 'nvidia-cuda-nvcc==13.*' 'nvidia-cuda-runtime==13.*' \
      'nvidia-cuda-cccl==13.*' 'nvidia-cuda-cuobjdump==13.*'
  fi
  cuda=$(echo "$PWD"/$tools/lib/python3*/site-packages/nvidia/cu13)
  licence=$(echo $tools/lib/python3*/site-packages/nvidia_cuda_runtime-*.dist-info/licenses/License.txt)
fi

# One pass of the compiler for the GPUs without clusters, and one for those with; PTX is for later GPUs.
cmake --preset cuda -B $build -DADDNORM_TESTS=OFF -DADDNORM_BENCH=OFF -DCMAKE_CUDA_COMPILER="$cuda/bin/nvcc" \
  -DADDNORM_CUDA_ARCHITECTURES=OFF -DCMAKE_CUDA_FLAGS="--generate-code=arch=compute_80,code=[sm_80,sm_89] \
--generate-code=arch=compute_90,code=[sm_90,sm_100,compute_90]" >/dev/null
cmake --build $build --target addnorm_cuda_shared
library=$build/libaddnorm_cuda.so

{
  scripts/third_party.py notices cuda-wheel
  printf '\n%s\n\nThe CUDA runtime (cudart), under the licence of the CUDA toolkit:\n\n' "$(printf -- '-%.0s' {1..100})"
  cat "$licence"
} > build/cuda-notices.txt
SOURCE_DATE_EPOCH=$(scripts/source-date.sh)
CUDA_MAJOR=$("$cuda/bin/nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
export SOURCE_DATE_EPOCH CUDA_MAJOR
rm -rf build/cuda-wheels
wheel=$(python3 python/cuda/wheel.py $library build/cuda-notices.txt build/cuda-wheels)
code=$({ "$cuda/bin/cuobjdump" --list-elf $library; "$cuda/bin/cuobjdump" --list-ptx $library | sed 's/sm_/PTX_/'; } |
  grep -o '\(sm\|PTX\)_[0-9a-z]*' | sort -uV | paste -sd ' ')
echo "$wheel: $(($(stat -c %s "$wheel") / 1024)) KiB; the library: $(($(stat -c %s $library) / 1024)) KiB; code: $code"
