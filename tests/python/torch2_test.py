"""addnorm.torch with features of PyTorch 2.4 and later: torch.compile, torch.export, operators, nn.RMSNorm."""

import copy
import io

import addnorm
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
from addnorm import torch as at  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch._dynamo.reset()


class Block(nn.Module):
    """Norms of three kinds, and a sum with its norm."""

    def __init__(self, width=16):
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.second = nn.RMSNorm(width)
        self.third = nn.LayerNorm(width, elementwise_affine=False)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.linear(self.first(x))
        return self.third(x + self.linear(self.second(x)))


class FusedBlock(Block):
    """The same with sums fused into the norms."""

    def forward(self, x):
        h, x = at.AddNorm(self.second)(x, self.linear(self.first(x)))
        return at.AddNorm(self.third)(x, self.linear(h))[0]


def converted(kind):
    block = kind()
    conversion = at.convert(block)
    assert sorted(conversion.converted) == ["first", "second", "third"]
    return block


def gradients(model, x):
    x = x.clone().requires_grad_()
    model.zero_grad()
    model(x).sin().sum().backward()
    return [x.grad] + [p.grad.clone() for p in model.parameters()]


def registered():
    return torch.ops.addnorm.norm.default, torch.ops.addnorm.add_norm.default


FIELDS = [addnorm.Norm().fields,
          addnorm.Norm("rms", 1e-3, gamma_form="one_plus", output_scale=0.5).fields]


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_operators_pass_pytorchs_own_check(fields, dtype):
    """Checks schemas, shapes of fake tensors, registration for autograd, and both under AOT dispatch."""
    values = torch.float64 if dtype == torch.float64 else torch.float32
    x, branch = (torch.randn(2, 3, 8, dtype=dtype, requires_grad=True) for _ in range(2))
    gamma, beta = (torch.randn(8, dtype=values, requires_grad=True) for _ in range(2))
    norm, add_norm = registered()
    for parameters in (gamma, beta), (gamma, None), (None, None):
        torch.library.opcheck(norm, (x, *parameters, *fields))
        torch.library.opcheck(add_norm, (x, branch, *parameters, *fields))


@pytest.mark.parametrize("kind", [Block, FusedBlock])
def test_a_compiled_block_is_one_graph_with_the_same_values(kind):
    block = converted(kind)
    compiled = torch.compile(block, fullgraph=True)
    for rows in 5, 7:  # also with another number of rows
        x = torch.randn(2, rows, 16)
        torch.testing.assert_close(compiled(x), block(x), rtol=1e-6, atol=1e-6)
        for a, b in zip(gradients(compiled, x), gradients(block, x)):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_compiled_graph_calls_our_kernels():
    graphs = []

    def backend(graph, _):
        graphs.append(str(graph.code))
        return graph.forward

    torch.compile(converted(FusedBlock), fullgraph=True, backend=backend)(torch.randn(2, 5, 16))
    assert len(graphs) == 1 and graphs[0].count("addnorm") >= 3 and "layer_norm(" not in graphs[0]


@pytest.mark.parametrize("kind", ["DyT", "Derf"])
def test_a_compiled_squash_is_one_graph_of_pytorchs_functions(kind):
    module, x = getattr(at, kind)(16), torch.randn(2, 5, 16)
    graphs = []

    def backend(graph, _):
        graphs.append(str(graph.code))
        return graph.forward

    torch.testing.assert_close(torch.compile(module, fullgraph=True, backend=backend)(x), module(x))
    assert len(graphs) == 1 and {"DyT": "tanh", "Derf": "erf"}[kind] in graphs[0]


def test_a_compiled_encoder_trains_as_it_does_uncompiled():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    at.convert(model)
    x = torch.randn(3, 5, 32)
    expected = gradients(model, x)
    for a, b in zip(gradients(torch.compile(model), x), expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_model_has_our_operators(strict):
    block = converted(FusedBlock)
    x = torch.randn(2, 5, 16)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(block, (x,), dynamic_shapes=({1: rows},), strict=strict)
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert [name for name in called if "addnorm" in name] == [
        "addnorm.norm.default", "addnorm.add_norm.default", "addnorm.add_norm.default"]
    other = torch.randn(2, 9, 16)
    torch.testing.assert_close(program.module()(other), block(other), rtol=0, atol=0)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    torch.testing.assert_close(torch.export.load(file).module()(x), block(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape, options", [
    ((8,), {}), ((8,), {"eps": 1e-3}), ((8,), {"elementwise_affine": False}), ((3, 8), {})])
def test_a_converted_rms_norm_is_pytorchs(shape, options, dtype):
    theirs = nn.RMSNorm(shape, **options)
    for p in theirs.parameters():
        nn.init.normal_(p)
    theirs = theirs.to(dtype)
    ours = copy.deepcopy(theirs)
    assert at.convert(ours).converted == {"": "RMSNorm"} and type(ours) is at.RMSNorm
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.02}[dtype]
    for scale in 1, 2e-4:  # at 2e-4, ε matters in float32
        x = scale * torch.randn(4, 3, 8, dtype=dtype)
        torch.testing.assert_close(ours(x), theirs(x), rtol=tolerance, atol=tolerance)
    assert str(ours).startswith("RMSNorm(" + ", ".join(map(str, shape)))


def test_second_derivatives_through_a_compiled_block_are_refused():
    compiled = torch.compile(converted(Block), fullgraph=True)
    x = torch.randn(2, 5, 16, requires_grad=True)
    with pytest.raises(RuntimeError, match="not currently support double backward|requires create_graph=False"):
        dx, = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
        dx.sum().backward()


def test_an_onnx_file_of_a_converted_model_computes():
    """The model is exported by tracing. A runtime computes it with a different input."""
    runtime = pytest.importorskip("onnxruntime")
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.RMSNorm(16, 1e-5))
    at.convert(model)
    file = io.BytesIO()
    torch.onnx.export(model, torch.randn(2, 16), file, opset_version=17, dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "rows"}})
    session = runtime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    x = torch.randn(5, 16)
    y, = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), model(x), rtol=1e-5, atol=1e-5)
