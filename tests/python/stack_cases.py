"""Sublayers and stacks for the tests of addnorm.torch.Stack, and their values in the library."""

import json
import os
import pathlib
import subprocess

import torch
from addnorm.torch import Stack
from torch import nn

EPSILON = 0.1  # so large that the scale of a norm's input matters, as do the gradients of lanes that are equal


class Turned(nn.Module):
    """The sublayer of tests/support/turned.h: f_c = (0.5 + 0.1·c)·tanh(h_{c - site - 1}), where h is the sum of the
    values, twice the keys and three times the queries if these differ."""

    def __init__(self, site):
        super().__init__()
        self.site = site

    def forward(self, query, key=None, value=None):
        h = query if key is query or key is None else value + 2 * key + 3 * query
        factors = 0.5 + 0.1 * torch.arange(h.shape[-1], dtype=h.dtype, device=h.device)
        return factors * torch.tanh(torch.roll(h, self.site + 1, -1))


def norm_of(kind, epsilon, **options):
    """Returns a function for Stack's `norm`, with the library's ε."""
    from addnorm import torch as at
    return lambda width: {"layer": at.LayerNorm, "rms": at.RMSNorm}[kind](width, epsilon, **options)


def turned_stack(placement, layers, d_model, norm="rms", epsilon=EPSILON, **options):
    norms = norm_of(norm, epsilon, dtype=options.get("dtype"))
    return Stack([Turned(site) for site in range(2 * layers)], placement, d_model=d_model, norm=norms, **options)


def library_names(stack):
    """Returns the library's name of each parameter of the arrangement."""
    names = {}
    for name, _ in stack.named_parameters():
        if ".sublayers." in name:
            continue
        parts = name.split(".")
        of_norm = parts[-2] not in ("read", "carry", "write", "gate")
        if of_norm and parts[-1] in ("weight", "bias"):
            parts[-1] = {"weight": "gamma", "bias": "beta"}[parts[-1]]
        names[name] = ".".join(parts)
    return names


def randomize(stack):
    """Gives all parameters values for which no term of the arrangement is 0."""
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))


def run_in_library(cases):
    """Returns the results of tests/python/stack_values.cc."""
    done = subprocess.run([os.environ["ADDNORM_STACK_VALUES"]], input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Attention(nn.Module):
    """Causal attention with a cache for generation. `cache` has the keys and values of earlier tokens by module."""

    def __init__(self, d_model, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, query, key=None, value=None, cache=None):
        key, value = query if key is None else key, query if value is None else value
        q, k, v = (linear(x).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
                   for linear, x in ((self.q, query), (self.k, key), (self.v, value)))
        if cache is not None:
            if self in cache:
                k, v = torch.cat([cache[self][0], k], -2), torch.cat([cache[self][1], v], -2)
            cache[self] = k, v
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1 + k.shape[-2] - q.shape[-2])
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        return self.o((weights @ v).transpose(-3, -2).flatten(-2)), weights


def sublayers(layers, d_model):
    feed_forward = lambda: nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))
    return [module for _ in range(layers) for module in (Attention(d_model), feed_forward())]


def small_stack(placement, layers=3, d_model=16, norm="rms", **options):
    return Stack(sublayers(layers, d_model), placement, d_model=d_model, norm=norm, **options)


class Decoder(nn.Module):
    """A small language model around a Stack."""

    def __init__(self, placement, layers=3, d_model=32, **options):
        super().__init__()
        self.embedding = nn.Embedding(50, d_model)
        self.stack = small_stack(placement, layers, d_model, **options)
        self.head = nn.Linear(d_model, 50, bias=False)

    def forward(self, tokens):
        return self.head(self.stack(self.embedding(tokens)))


def gradients(stack, x, run=None):
    """Returns the gradients of x and of all parameters, by name."""
    x = x.detach().clone().requires_grad_()
    stack.zero_grad()
    (stack if run is None else run)(x).sin().sum().backward()
    return {"x": x.grad, **{name: p.grad.clone() for name, p in stack.named_parameters() if p.grad is not None}}


DISTRIBUTED = ["pre", "rezero", "ngpt", "highway", "mhc", "single-pass-mhc", "frac", "mudd", "attention-residuals"]


def begin_process(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    torch.manual_seed(0)


def end_process(rank, folder, same):
    if rank == 0:
        pathlib.Path(folder, "same").write_text(json.dumps(same))
    torch.distributed.destroy_process_group()


def replicate_in_process(rank, folder):
    begin_process(rank, folder)
    same = {}
    for placement in DISTRIBUTED:
        stack = small_stack(placement, dtype=torch.float64).double().eval()
        x = torch.randn(4, 5, 16, dtype=torch.float64)
        randomize(stack)
        expected = gradients(stack, x)
        replicated = torch.nn.parallel.DistributedDataParallel(stack)
        mine = gradients(stack, x[2 * rank:2 * rank + 2], replicated)
        same[placement] = all(torch.allclose(2 * mine[name], expected[name]) for name in mine if name != "x")
    end_process(rank, folder, same)


def shard_in_process(rank, folder):
    from torch.distributed.fsdp import fully_shard
    begin_process(rank, folder)
    mesh, same = torch.distributed.device_mesh.init_device_mesh("cpu", (2,)), {}
    for placement in DISTRIBUTED:
        torch.manual_seed(0)
        stack = small_stack(placement, dtype=torch.float64).double().eval()
        x = torch.randn(4, 5, 16, dtype=torch.float64)
        randomize(stack)
        expected = gradients(stack, x)
        for layer in stack.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(stack, mesh=mesh)
        found = gradients(stack, x[2 * rank:2 * rank + 2])
        whole = {name: g.full_tensor() for name, g in found.items() if name != "x"}
        same[placement] = all(torch.allclose(2 * g, expected[name]) for name, g in whole.items())
    end_process(rank, folder, same)
