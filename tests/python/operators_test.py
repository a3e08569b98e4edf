"""The operators of PyTorch: their derivatives, fake tensors, other devices, and the structs for addnorm-cuda."""

import contextlib
import ctypes

import addnorm
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
from addnorm import _library  # noqa: E402
from addnorm import torch as at  # noqa: E402
from addnorm.torch import cuda_kernels  # noqa: E402
from torch import nn  # noqa: E402

LAYER = addnorm.Norm("layer", 0.1).fields
RMS = addnorm.Norm("rms", 0.1, gamma_form="one_plus", output_scale=0.5).fields


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def of_norm(fields):
    return lambda x, gamma, beta: torch.ops.addnorm.norm(x, gamma, beta, *fields)[0]


def of_add_norm(fields):
    return lambda x, f, gamma, beta: torch.ops.addnorm.add_norm(x, f, gamma, beta, *fields)[:2]


def of_lanes(fields):
    return lambda *of: torch.ops.addnorm.lanes(*of, *fields)[:2]


ROWS, WIDTH, LANES = 3, 5, 2
NORM_CASES = {
    "layer": (of_norm(LAYER), lambda: (random(ROWS, WIDTH), random(WIDTH), random(WIDTH))),
    "rms": (of_norm(RMS), lambda: (random(ROWS, WIDTH), random(WIDTH), None)),
    "without parameters": (of_norm(LAYER), lambda: (random(ROWS, WIDTH), None, None)),
    "sum, layer": (of_add_norm(LAYER), lambda: (random(ROWS, WIDTH), random(ROWS, WIDTH), random(WIDTH), random(WIDTH))),
    "sum, rms": (of_add_norm(RMS), lambda: (random(ROWS, WIDTH), random(ROWS, WIDTH), random(WIDTH), None)),
}


def stream(carry=True, per_row=False, read=True, norm=True):
    rows = (ROWS,) if per_row else ()
    return (random(ROWS, LANES, WIDTH), random(ROWS, WIDTH), random(*rows, LANES, LANES) if carry else None,
            random(*rows, LANES), random(*rows, LANES) if read else None,
            random(WIDTH) if norm else None, random(WIDTH) if norm else None)


LANE_CASES = {
    "carry, write, read, norm": (of_lanes(LAYER), stream),
    "by rows": (of_lanes(RMS), lambda: stream(per_row=True)),
    "no carry": (of_lanes(("", *LAYER[1:])), lambda: stream(carry=False, norm=False)),
}


@pytest.mark.parametrize("name", [*NORM_CASES, *LANE_CASES])
def test_first_and_second_derivatives_are_central_differences(name):
    function, make = (NORM_CASES | LANE_CASES)[name]
    inputs = make()
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", [*NORM_CASES, *LANE_CASES])
def test_operators_are_consistent_with_their_fake_tensors(name):
    inputs = (NORM_CASES | LANE_CASES)[name][1]()
    fields = RMS if "rms" in name or "rows" in name else LAYER
    if name in LANE_CASES:
        operator, fields = torch.ops.addnorm.lanes.default, ("", *LAYER[1:]) if name == "no carry" else fields
    else:
        operator = torch.ops.addnorm.add_norm.default if "sum" in name else torch.ops.addnorm.norm.default
    torch.library.opcheck(operator, (*inputs, *fields),
                          test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))


def test_the_same_operator_computes_on_every_device():
    x, gamma = torch.randn(3, 8), torch.randn(8)
    for device in "meta", "cpu":
        y, statistics = torch.ops.addnorm.norm(x.to(device), gamma.to(device), None, *LAYER)
        assert y.device.type == device and y.shape == x.shape and statistics.shape == (3, 6)
    layer = at.LayerNorm(8).to("meta")
    assert layer(x.to("meta")).is_meta


def test_pytorchs_functions_have_the_same_results_and_gradients(monkeypatch):
    """They compute where there are no kernels, here by refusing all."""
    def run():
        inputs = [t.detach().requires_grad_() if t is not None else None for t in given]
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum((o * torch.cos(o.detach())).sum() for o in outputs).backward()
        return [*outputs, *(t.grad for t in inputs if t is not None)]

    from addnorm.torch import operators
    for name, (function, make) in (NORM_CASES | LANE_CASES).items():
        given = make()
        by_kernels = run()
        with monkeypatch.context() as patch:
            patch.setattr(operators, "obstacle", lambda tensor: "is refused")
            by_formula = run()
        for ours, theirs in zip(by_kernels, by_formula):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("branch_type", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("per_row", [False, True])
def test_lanes_read_a_16_bit_branch_in_place(monkeypatch, branch_type, per_row):
    """A float32 stream and a branch of 16 bits, as under autocast: the bits are those of a branch that is converted."""
    torch.manual_seed(0)
    shape = (5, 7) if per_row else ()
    x, f = torch.randn(5, 7, 4, 24), torch.randn(5, 7, 24).to(branch_type)
    carry, write, d_sum = torch.randn(*shape, 4, 4), torch.randn(*shape, 4), torch.randn(5, 7, 4, 24)

    def run(is_converted):
        leaves = [t.clone().requires_grad_() for t in (x, f, carry, write)]
        branch = leaves[1].float() if is_converted else leaves[1]
        sum, y = at.lanes(leaves[0], branch, *leaves[2:])
        assert y is None
        return [sum.detach(), *torch.autograd.grad(sum, leaves, d_sum)]

    expected, seen = run(True), []
    convert = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda t, *args, **kw: (seen.append(t.dtype), convert(t, *args, **kw))[1])
    found = run(False)
    assert branch_type not in seen
    assert found[2].dtype == branch_type
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_lanes_are_their_formula_in_eager_and_compiled_code():
    x, f = torch.randn(4, 2, 16), torch.randn(4, 16)
    carry, write, read = torch.randn(2, 2), torch.randn(2), torch.randn(2)
    gamma, norm = torch.randn(16), addnorm.Norm("rms", 1e-6)
    sum, y = at.lanes(x, f, carry, write, read, gamma, None, norm)
    expected = carry @ x + write[:, None] * f[:, None]
    torch.testing.assert_close(sum, expected)
    z = (read[:, None] * expected).sum(1)
    torch.testing.assert_close(y, gamma * z / (z.square().mean(-1, keepdim=True) + 1e-6).sqrt())
    compiled = torch.compile(lambda *of: at.lanes(*of, gamma, None, norm), fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(compiled(x, f, carry, write, read), (sum, y)):
        assert torch.equal(ours, theirs)
    only_read = at.lanes(x, None, None, None, read)
    assert only_read[0] is x and only_read[1].shape == f.shape


@pytest.mark.parametrize("change, message", [
    (dict(branch=None), "branch and write must both be given, or neither"),
    (dict(carry=torch.ones(3, 3)), r"carry has the shape \(3, 3\), must have \(3, 2\) or \(4, 3, 2\)"),
    (dict(read=torch.ones(3)), r"read has the shape \(3,\), must have \(2,\) or \(4, 2\)"),
    (dict(branch=torch.ones(4, 8)), r"branch has the shape \(4, 8\), must have \(4, 16\)"),
    (dict(write=torch.ones(2, device="meta")), "write is on meta and x on cpu, must be on one device"),
])
def test_lanes_names_the_wrong_argument(change, message):
    given = dict(x=torch.ones(4, 2, 16), branch=torch.ones(4, 16), carry=torch.ones(2, 2), write=torch.ones(2))
    with pytest.raises(addnorm.Error, match=message):
        at.lanes(**{**given, **change})


def test_tensors_on_two_devices_are_named():
    with pytest.raises(addnorm.Error, match="weight is on meta and x on cpu, must be on one device"):
        at.norm(torch.ones(2, 4), torch.ones(4, device="meta"))


# ---- explain ---------------------------------------------------------------------------------


def test_explain_says_what_computes_and_why():
    assert at.explain(torch.ones(2)) == "float32 on cpu: the kernels of addnorm"
    assert at.explain(torch.ones(2, device="meta")) == \
        "float32 on meta: PyTorch's functions, because it is on meta, for which addnorm has no kernels"
    assert at.explain(torch.ones(2, dtype=torch.int8)) == \
        "int8 on cpu: PyTorch's functions, because it has the type int8"
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4).half())
    assert at.explain(model) == "no module is converted; addnorm.torch.convert(model) converts norms"
    at.convert(model)
    assert at.explain(model) == "1 of 2 norms: float32 on cpu, the kernels of addnorm; " \
        "1 of 2 norms: float16 on cpu, the kernels of addnorm"
    with pytest.raises(TypeError, match="got a int, must get a tensor or a torch.nn.Module"):
        at.explain(3)


# ---- addnorm-cuda ----------------------------------------------------------------------------


class CpuAsCuda:
    """The CPU library with the interface of addnorm-cuda, whose structs are the same."""

    def __getattr__(self, name):
        name = name.replace("addnorm_cuda_", "addnorm_")
        function = getattr(_library.library, name)
        function.argtypes = None
        if "workspace" in name:
            function.restype = ctypes.c_size_t

            def workspace(*arguments):
                *sizes, values = arguments
                values._obj.value = function(*map(ctypes.c_size_t, sizes))
                return 0
            return workspace
        return lambda packed, stream: function(packed)


@pytest.fixture
def as_cuda(monkeypatch):
    monkeypatch.setattr(cuda_kernels, "library", CpuAsCuda)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: type("Stream", (), {"cuda_stream": 0}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [addnorm.Norm("layer", 0.1), addnorm.Norm("rms", 0.1, gamma_form="one_plus")])
def test_the_structs_for_cuda_name_the_right_memory(as_cuda, dtype, options):
    x, f, dy, ds = (torch.randn(6, 16).to(dtype) for _ in range(4))
    gamma, beta = torch.randn(16), torch.randn(16)
    kernels, fields = cuda_kernels.kernels, options.fields
    y, s, statistics = kernels.forward(x, f, gamma, beta, fields, 1)
    theirs = addnorm.add_norm(x, f, gamma, beta, options)
    assert torch.equal(y, theirs.y) and torch.equal(s, theirs.sum) and torch.equal(statistics, theirs.statistics)
    alone, nothing, _ = kernels.forward(x, None, gamma, beta, fields, 1)
    assert nothing is None and torch.equal(alone, addnorm.add_norm(x, None, gamma, beta, options).y)
    ours = kernels.backward(dy, ds, s, statistics, gamma, True, True, fields, 1)
    theirs = addnorm.add_norm_backward(dy, s, statistics, gamma, options, d_residual=ds)
    assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("per_row", [False, True])
def test_the_structs_of_lanes_for_cuda_name_the_right_memory(as_cuda, per_row):
    x, f, carry, write, read, gamma, beta = (t.detach().float() for t in stream(per_row=per_row))
    options, kernels = addnorm.Norm("layer", 0.1), cuda_kernels.kernels
    sum, y, statistics = kernels.lanes_forward(x, f, carry, write, read, gamma, beta, options.fields)
    theirs = addnorm.lanes(x, f, carry, write, read, norm=options, gamma=gamma, beta=beta)
    assert torch.equal(sum, theirs.sum) and torch.equal(y, theirs.y) and torch.equal(statistics, theirs.statistics)
    d_sum, dy = torch.randn_like(sum), torch.randn_like(y)
    ours = kernels.lanes_backward(d_sum, dy, x, f, carry, write, read, statistics, gamma, options.fields)
    theirs = addnorm.lanes_backward(d_sum, dy, x, f, carry, write, read, statistics, norm=options, gamma=gamma)
    assert all(map(torch.equal, ours, theirs))
