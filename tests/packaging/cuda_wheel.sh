#!/usr/bin/env bash
# Builds the wheel addnorm-cuda, installs it in an empty virtual environment, and calls its library there, which accepts
# the GPU or says in one line why there is none to run on. Exit status 77: PyPI cannot be reached.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

/usr/bin/python3 -m venv alone
alone/bin/pip download --quiet --no-deps nvidia-cuda-cccl 2>pip.log || {
  echo "cuda_wheel: SKIPPED: PyPI cannot be reached: $(tail -1 pip.log)"
  exit 77
}
built=$("$project/scripts/build-cuda-wheel.sh" /usr/bin/python3 | tail -1)
echo "$built"
[[ $built == *"code: PTX_90 sm_80 sm_89 sm_90 sm_100" ]]
alone/bin/pip install --quiet --no-index "$project"/build/cuda-wheels/*.whl
alone/bin/python -I - <<'PYTHON'
import ctypes
import addnorm_cuda

library = ctypes.CDLL(str(addnorm_cuda.library()))
library.addnorm_cuda_last_error.restype = library.addnorm_cuda_version.restype = ctypes.c_char_p
assert library.addnorm_cuda_version().count(b".") == 2
if library.addnorm_cuda_supports(0, ctypes.c_size_t(4096), ctypes.c_size_t(0)):
    message = library.addnorm_cuda_last_error().decode()
    print(message)
    assert message.startswith("cuda::check_support: ") and "\n" not in message, message
PYTHON
