"""Times add & norm of PyTorch, eager and compiled, and of Liger if it is installed, on an NVIDIA GPU. Prints medians of
device events in microseconds, like bench/cuda_bench.cc."""

import statistics
import sys

import torch
import torch.nn.functional as F

ROWS = 32768


def median_us(work, repetitions=21):
    for _ in range(3):
        work()
    times = []
    for _ in range(repetitions):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def add_layer_norm(x, branch, weight, bias):
    s = x + branch
    return F.layer_norm(s, s.shape[-1:], weight, bias), s


def add_rms_norm(x, branch, weight, bias):
    s = x + branch
    return F.rms_norm(s, s.shape[-1:], weight, 1e-6), s


def liger():
    """Liger's fused add and RMSNorm; None if it is not installed."""
    try:
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
    except ImportError as error:
        print("Liger:", error)
        return None

    def call(x, branch, weight, _):
        return LigerFusedAddRMSNormFunction.apply(x, branch, weight, 1e-6, 0.0, "llama", False)
    return call


def measure(call, cols, dtype=torch.bfloat16, rows=ROWS):
    """Times forward, and backward of one prior forward."""
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    x, branch, dy, ds = (make(rows, cols) for _ in range(4))
    weight, bias = (torch.ones(cols, device="cuda", dtype=dtype) for _ in range(2))
    with torch.no_grad():
        forward = median_us(lambda: call(x, branch, weight, bias))
    inputs = [t.requires_grad_() for t in (x, branch, weight, bias)]
    y, s = call(*inputs)
    outputs = [y, s]
    backward = median_us(lambda: torch.autograd.grad(outputs, inputs, [dy, ds], retain_graph=True,
                                                     allow_unused=True))
    return forward, backward


def main():
    print(torch.cuda.get_device_name(), torch.__version__)
    widths = [int(w) for w in sys.argv[1:]] or [1024, 2048, 4096, 8192, 16384, 32768, 65536]
    calls = {"layer eager": add_layer_norm, "layer compiled": torch.compile(add_layer_norm, dynamic=False),
             "rms eager": add_rms_norm, "rms compiled": torch.compile(add_rms_norm, dynamic=False)}
    if (fused := liger()) is not None:
        calls["rms Liger"] = fused
    for cols in widths:
        torch.compiler.reset()  # compiles each width from scratch, however many there were
        for name, call in calls.items():
            try:
                forward, backward = measure(call, cols)
                print(f"{ROWS} x {cols:<6} {name:<15} forward {forward:9.1f} us  backward {backward:9.1f} us", flush=True)
            except Exception as error:  # an error of one candidate must not end the others
                print(f"{ROWS} x {cols:<6} {name:<15} {type(error).__name__}: {str(error)[:200]}", flush=True)
            torch.cuda.empty_cache()
    for name in ("rms eager", "rms compiled"):
        forward, _ = measure(calls[name], 4096, rows=140)
        print(f"140 x 4096 {name}: {forward:.1f} us")


main()
