"""addnorm.torch.Stack with features of PyTorch 2.4 and later: torch.compile, torch.export, fully_shard."""

import io
import json
import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.4")
from addnorm.torch import Stack  # noqa: E402
from stack_cases import Turned, gradients, randomize, shard_in_process, small_stack  # noqa: E402

NAMES = Stack.placements()
SOME = ["post", "ngpt", "mhc", "mudd", "block-attention-residuals"]
HAS_CPU_SHARDS = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 7)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch._dynamo.reset()


def turned(placement):
    stack = Stack([Turned(site) for site in range(4)], placement, d_model=8, norm="rms").eval()
    randomize(stack)
    return stack


@pytest.mark.parametrize("placement", NAMES)
def test_a_stack_is_traced_as_one_graph(placement):
    stack, x = turned(placement), torch.randn(2, 5, 8)
    torch.testing.assert_close(torch.compile(stack, fullgraph=True, backend="eager")(x), stack(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("placement", ["ngpt", "dynamic-hyper"])
def test_a_compiled_stack_trains_as_it_does_uncompiled(placement):
    stack = turned(placement)
    compiled = torch.compile(stack, fullgraph=True)
    x = torch.randn(2, 5, 8)
    expected = gradients(stack, x)
    for name, gradient in gradients(stack, x, compiled).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-4, msg=name)


def test_a_compiled_stack_runs_under_autocast_and_drops_branches():
    stack = torch.compile(small_stack("stochastic-depth", 1), fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert stack(torch.randn(2, 5, 16)).dtype == torch.float32
    stack = torch.compile(small_stack("dynamic-hyper", 1), fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(stack(torch.randn(2, 5, 16))).all()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("placement", SOME)
def test_an_exported_stack_computes_the_same(placement, strict):
    stack = turned(placement)
    x, rows = torch.randn(2, 5, 8), torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(stack, (x,), dynamic_shapes={"x": {1: rows}}, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded, x = torch.export.load(file).module(), torch.randn(2, 9, 8)
    torch.testing.assert_close(loaded(x), stack(x))


@pytest.mark.skipif(not HAS_CPU_SHARDS, reason="fully_shard runs on the CPU from PyTorch 2.7 on")
def test_a_sharded_stack_has_the_gradients_of_the_whole_batch(tmp_path):
    torch.multiprocessing.start_processes(shard_in_process, (str(tmp_path),), nprocs=2, start_method="spawn")
    same = json.loads((tmp_path / "same").read_text())
    assert same and all(same.values()), same
