"""Compares the bits of norms in PyTorch (eager and compiled) with those of addnorm.torch: whether a row's output and the
gradients depend on the batch, on the row's place, on the number of threads, and on the run.

    PYTHONPATH=build/release/python python3 bench/batch_invariance.py [--device cuda]

Prints a Markdown table for docs/batch-invariance.md. On a GPU it needs addnorm-cuda, and it also measures Liger if that
is installed.
"""

import argparse
import statistics
import time

import torch
import torch._dynamo
import torch.nn.functional as F

import addnorm.torch

ROWS, FEATURES = 2048, 4096
BATCHES = 1, 2, 3, 7, 16, 33, 128, 1000, 2048
THREADS = 1, 2, 4
REPEATS = 9


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5)


def rms_norm(x, gamma, beta):
    return F.rms_norm(x, x.shape[-1:], gamma, 1e-5)


def ours(kind):
    options = addnorm.Norm(kind, 1e-5)
    return lambda x, gamma, beta: addnorm.torch.norm(x, gamma, beta if kind == "layer" else None, options)


def implementations(kind, device):
    theirs = layer_norm if kind == "layer" else rms_norm
    yield "PyTorch", theirs
    yield "PyTorch, compiled", torch.compile(theirs)
    if device == "cuda":
        try:
            from liger_kernel.ops.layer_norm import LigerLayerNormFunction
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction
            yield "Liger", (lambda x, g, b: LigerLayerNormFunction.apply(x, g, b, 1e-5)) if kind == "layer" else \
                (lambda x, g, b: LigerRMSNormFunction.apply(x, g, 1e-5))
        except ImportError:
            pass
    yield "addnorm", ours(kind)


def threads_of(device):
    return THREADS if device == "cpu" else (torch.get_num_threads(),)


def gradients(norm, x, gamma, beta, dy):
    x, gamma, beta = (t.detach().requires_grad_() for t in (x, gamma, beta))
    y = norm(x, gamma, beta)
    y.backward(dy)
    return [y.detach(), x.grad, gamma.grad, *([] if beta.grad is None else [beta.grad])]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other))


def measured(norm, x, gamma, beta, dy, device):
    """Returns whether the bits stay the same: of y in batches of other sizes and at other places, of y and dx and of the
    parameters' gradients in other runs, with other numbers of threads."""
    torch.set_num_threads(THREADS[0])
    whole = gradients(norm, x, gamma, beta, dy)
    in_batches = all(torch.equal(norm(x[:n].contiguous(), gamma, beta), whole[0][:n]) for n in BATCHES)
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(1)).to(x.device)
    at_places = torch.equal(norm(x[shuffled], gamma, beta), whole[0][shuffled])
    runs, parameters = True, True
    for threads in threads_of(device):
        torch.set_num_threads(threads)
        for _ in range(3):
            again = gradients(norm, x, gamma, beta, dy)
            runs &= equal(again[:2], whole[:2])
            parameters &= equal(again[2:], whole[2:])
    return in_batches, at_places, runs, parameters


def error(norm, kind, x, gamma, beta):
    """Returns the largest error against float64, relative to the largest value."""
    wide = x.double()
    centred = wide - (wide.mean(-1, keepdim=True) if kind == "layer" else 0)
    truth = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma.double()
    truth = truth + (beta.double() if kind == "layer" else 0)
    return float(((norm(x, gamma, beta).double() - truth).abs().max() / truth.abs().max()))


def seconds(norm, inputs, device):
    begin = time.perf_counter()
    gradients(norm, *inputs)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def main():
    torch._dynamo.config.recompile_limit = 64  # otherwise the last batches fall back to eager code
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    device = parser.parse_args().device
    print("| norm, type | implementation | same bits in any batch | at any place | in any run | dγ, dβ in any run | "
          "largest error | time |\n|---|---|---|---|---|---|---|---|")
    for kind in "layer", "rms":
        for dtype in torch.float32, torch.bfloat16:
            torch.manual_seed(0)
            x, dy = (torch.randn(ROWS, FEATURES, device=device).to(dtype) for _ in range(2))
            gamma, beta = (torch.randn(FEATURES, device=device).to(dtype) for _ in range(2))
            norms = dict(implementations(kind, device))
            same = {name: measured(norm, x, gamma, beta, dy, device) for name, norm in norms.items()}
            torch.set_num_threads(2)
            times = {name: [] for name in norms}
            for _ in range(REPEATS):
                for name, norm in norms.items():
                    times[name].append(seconds(norm, (x, gamma, beta, dy), device))
            for name, norm in norms.items():
                marks = ["yes" if holds else "no" for holds in same[name]]
                print(f"| {kind}, {str(dtype)[6:]} | {name} | {' | '.join(marks)} | "
                      f"{error(norm, kind, x, gamma, beta):.1e} | {1e3 * statistics.median(times[name]):.1f} ms |",
                      flush=True)


if __name__ == "__main__":
    main()
