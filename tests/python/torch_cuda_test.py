"""addnorm.torch on an NVIDIA GPU with addnorm-cuda: against the CPU's kernels, PyTorch's functions, CUDA graphs and
streams. scripts/gpu-check.sh runs it; without a GPU every test is skipped."""

import addnorm
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
from addnorm import torch as at  # noqa: E402
from addnorm.torch import cuda_kernels  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or cuda_kernels.library() is None,
                                reason="there is no GPU, or addnorm-cuda is not installed")
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
KINDS = [addnorm.Norm("layer"), addnorm.Norm("rms", 1e-6), addnorm.Norm("rms", 1e-6, gamma_form="one_plus")]
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def run(device, options, x, f, gamma, dy, ds):
    inputs = [t.to(device).clone().requires_grad_() for t in (x, f, gamma)]
    y, s = at.add_norm(*inputs, options=options)
    torch.autograd.backward([y, s], [dy.to(device), ds.to(device)])
    return [t.detach().cpu() for t in (y, s, *(t.grad for t in inputs))]


@pytest.mark.parametrize("features", [8, 768, 4096, 8192])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", KINDS)
def test_a_sum_and_its_norm_are_those_of_the_cpu(options, dtype, features):
    x, f, dy, ds = (torch.randn(37, features).to(dtype) for _ in range(4))
    gamma = torch.randn(features)
    ours, theirs = (run(device, options, x, f, gamma, dy, ds) for device in ("cuda", "cpu"))
    assert torch.equal(ours[1], theirs[1])
    for a, b in zip(ours, theirs):
        error = (a.double() - b.double()).norm() / b.double().norm()
        assert error < TOLERANCE[dtype]


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("per_row", [False, True])
def test_lanes_are_those_of_the_cpu(lanes, per_row):
    rows = (9,) if per_row else ()
    shapes = (9, lanes, 256), (9, 256), (*rows, lanes, lanes), (*rows, lanes), (*rows, lanes), (256,)
    tensors = [torch.randn(shape) for shape in shapes]

    def results(device):
        inputs = [t.to(device).clone().requires_grad_() for t in tensors]
        sum, y = at.lanes(*inputs, None, addnorm.Norm("rms", 1e-6))
        torch.autograd.backward([sum, y], [torch.ones_like(sum), torch.cos(y.detach())])
        return [t.detach().cpu() for t in (sum, y, *(t.grad for t in inputs))]

    for ours, theirs in zip(results("cuda"), results("cpu")):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_in_any_batch(dtype):
    x, gamma = torch.randn(129, 1024, device="cuda").to(dtype), torch.randn(1024, device="cuda")
    whole = at.norm(x, gamma)
    for n in 1, 3, 64:
        assert torch.equal(at.norm(x[:n], gamma), whole[:n])


def test_a_converted_model_is_captured_by_a_cuda_graph():
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64), nn.RMSNorm(64)).cuda()
    expected = model(torch.ones(8, 64, device="cuda"))
    at.convert(model)
    assert "addnorm-cuda" in at.explain(model)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(8, 64, device="cuda"),))
    torch.testing.assert_close(graphed(torch.ones(8, 64, device="cuda")), expected)


def test_kernels_run_on_the_current_stream():
    x, stream = torch.zeros(4096, 1024, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        x.add_(torch.arange(1024, device="cuda"))
        y = at.norm(x, options=addnorm.Norm("rms"))
    stream.synchronize()
    assert float(y.square().mean()) == pytest.approx(1, abs=1e-3)


def test_compiled_code_calls_the_operator_without_a_break():
    block = nn.Sequential(nn.Linear(64, 64), at.LayerNorm(64)).cuda()
    compiled = torch.compile(block, fullgraph=True)
    x = torch.randn(8, 64, device="cuda")
    torch.testing.assert_close(compiled(x), block(x))


def test_what_the_kernels_lack_is_computed_by_pytorch():
    x = torch.randn(3, 8, device="cuda", dtype=torch.float64)
    assert "lack float64" in at.explain(x)
    torch.testing.assert_close(at.norm(x), nn.functional.layer_norm(x, (8,)))
    with pytest.raises(addnorm.Error, match="weight is on cpu and x on cuda:0, must be on one device"):
        at.norm(x, torch.ones(8, dtype=torch.float64))
