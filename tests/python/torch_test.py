"""addnorm.torch against PyTorch's own modules and central differences."""

import copy
import inspect
import io
import math
import os
import subprocess
import sys

import addnorm
import pytest

torch = pytest.importorskip("torch")
from addnorm import torch as at  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._pytree import tree_map  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def drawn(*shape, dtype=torch.double):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


NORMS = [addnorm.Norm(), addnorm.Norm("rms", 1e-3, gamma_form="one_plus", output_scale=0.5),
         addnorm.Norm("layer", 0.01, eps_at="deviation", variance="unbiased")]


@pytest.mark.parametrize("options", NORMS, ids=str)
def test_gradcheck(options):
    x, branch, weight, bias = drawn(2, 3, 6), drawn(2, 3, 6), drawn(6), drawn(6)
    check = torch.autograd.gradcheck
    assert check(lambda *a: at.norm(*a, options=options), (x, weight, bias))
    assert check(lambda *a: at.add_norm(*a, options=options), (x, branch, weight, bias))
    assert check(lambda *a: at.add_norm(*a, options=options)[0], (x, branch, weight, bias))  # y or s alone
    assert check(lambda *a: at.add_norm(*a, options=options)[1], (x, branch))
    assert check(lambda x: at.add_norm(x, branch.detach(), options=options), (x,))
    assert check(lambda b: at.add_norm(x.detach(), b, options=options), (branch,))
    assert check(lambda w: at.norm(x.detach(), w, options=options), (weight,))
    assert check(lambda x: at.norm(x.transpose(0, 1), options=options), (x,))  # not contiguous


@pytest.mark.parametrize("options", NORMS, ids=str)
def test_second_derivatives(options):
    x, branch, weight, bias = drawn(2, 3, 6), drawn(2, 3, 6), drawn(6), drawn(6)
    check = torch.autograd.gradgradcheck
    assert check(lambda *a: at.norm(*a, options=options), (x, weight, bias))
    assert check(lambda *a: at.add_norm(*a, options=options), (x, branch, weight, bias))
    assert check(lambda *a: at.add_norm(*a, options=options)[0], (x, branch, weight, bias))  # y or s alone
    assert check(lambda x, w: at.norm(x, w, options=options), (x, weight))
    assert check(lambda x: at.norm(x, weight.detach(), options=options), (x,))
    assert check(lambda w: at.norm(x.detach(), w, options=options), (weight,))


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("variance", ["population", "unbiased"])
@pytest.mark.parametrize("eps_at", ["variance", "deviation"])
@pytest.mark.parametrize("gamma_form", [None, "plain", "one_plus"])
def test_the_formula_and_its_gradients_for_devices_without_kernels(kind, variance, eps_at, gamma_form, axes):
    from addnorm.torch import formula
    x, dy = drawn(4, 3, 5), torch.randn(4, 3, 5, dtype=torch.double)
    shape = x.shape[-axes:]
    gamma, beta = (None, None) if gamma_form is None else (drawn(*shape), drawn(*shape))
    fields = addnorm.Norm(kind, 0.05, eps_at=eps_at, variance=variance, gamma_form=gamma_form or "plain",
                          output_scale=0.7).fields
    over = tuple(range(-axes, 0))
    c = x - x.mean(over, keepdim=True) if kind == "layer" else x
    v = c.square().sum(over, keepdim=True) / (math.prod(shape) - (variance == "unbiased"))
    y = c / (torch.sqrt(v + 0.05) if eps_at == "variance" else torch.sqrt(v) + 0.05)
    if gamma is not None:
        y = y * (gamma if gamma_form == "plain" else 1 + gamma) + beta
    y = 0.7 * y
    assert torch.allclose(formula.norm_in_pytorch(x, gamma, beta, fields, shape), y, rtol=0, atol=1e-13)
    parameters = [] if gamma is None else [gamma, beta]
    found = formula.norm_backward_in_pytorch(dy, x, gamma, fields, axes)
    for ours, theirs in zip(found, torch.autograd.grad(y, [x, *parameters], dy)):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


def squash(kind, x, alpha, shift, weight, bias):
    """Computes DyT or Derf with PyTorch's own functions."""
    y = torch.tanh(alpha * x) if kind == "dyt" else torch.erf(alpha * x + shift)
    return weight * y + bias


@pytest.mark.parametrize("kind", ["dyt", "derf"])
def test_dyt_and_derf_are_pytorchs_functions(kind):
    module = (at.DyT if kind == "dyt" else at.Derf)(6).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    names = dict(module.named_parameters())
    parameters = [names.get(name) for name in ("alpha", "shift", "weight", "bias")]
    x, dy = drawn(2, 6, 5).transpose(1, 2), torch.randn(2, 5, 6).double()
    wanted = [x, *(p for p in parameters if p is not None)]
    ours, theirs = module(x), squash(kind, x, *parameters)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours, wanted, dy), torch.autograd.grad(theirs, wanted, dy)):
        torch.testing.assert_close(a, b)
    call = torch.nn.utils.stateless.functional_call
    differentiate = lambda x, *p: call(module, dict(zip(names, p)), (x,))  # noqa: E731
    arguments = drawn(2, 3, 6), *(p.detach().requires_grad_() for p in names.values())
    assert torch.autograd.gradcheck(differentiate, arguments)
    assert torch.autograd.gradgradcheck(differentiate, arguments)
    traced = torch.jit.trace(module, (x,), check_trace=False)
    torch.testing.assert_close(traced(2 * x), module(2 * x))
    half = module.to(torch.bfloat16)
    assert half(x.detach().bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_that_is_differentiated_again_is_the_same(dtype):
    x, weight = drawn(4, 32, dtype=dtype), drawn(32, dtype=torch.float32)
    y = at.norm(x, weight)
    once = torch.autograd.grad(y.float().sin().sum(), (x, weight), retain_graph=True)
    again = torch.autograd.grad(y.float().sin().sum(), (x, weight), create_graph=True)
    for a, b in zip(once, again):
        assert a.dtype == b.dtype and b.requires_grad
        torch.testing.assert_close(a, b, rtol=0.02 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("options", NORMS + [addnorm.Norm("rms")], ids=str)
@pytest.mark.parametrize("dtype, tolerance",
                         [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_a_traced_model_computes_with_other_inputs(options, dtype, tolerance):
    """Tracing records PyTorch's own operators. A kernel's result would become a constant."""
    weight, bias = torch.randn(2, 8, dtype=dtype)
    first, second = torch.randn(3, 5, 8, dtype=dtype), torch.randn(2, 7, 5, 8, dtype=dtype)

    def model(x, branch):
        return at.norm(x, weight, bias, options, (8,)), *at.add_norm(x, branch, weight, bias, options, (8,))

    traced = torch.jit.trace(model, (first, first), check_trace=False)  # would warn of different rounding
    for x, branch in (first, first), second:
        for a, b in zip(traced(x, branch), model(x, branch)):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_an_onnx_file_of_a_converted_model_has_its_norms():
    model = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), LlamaRMSNorm(32))
    at.convert(model)
    file = io.BytesIO()
    by_tracing = {}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:  # PyTorch 2
        pytest.importorskip("onnx")
        by_tracing = {"dynamo": False}
    torch.onnx.export(model.eval(), torch.randn(2, 5, 32), file, opset_version=17, **by_tracing)
    for operator in b"LayerNormalization", b"Sqrt", b"MatMul":
        assert operator in file.getvalue(), operator


def test_script_is_refused_in_one_sentence_and_changes_nothing():
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    at.convert(model)
    with pytest.raises(addnorm.Error, match="torch.jit.script cannot compile addnorm.torch.LayerNorm: trace"):
        torch.jit.script(model)
    assert type(model[1]) is at.LayerNorm


def test_results_of_the_package_are_tensors_beside_tensors():
    x, branch = torch.randn(2, 3, 5, 8)
    gamma, beta = torch.randn(2, 8)
    y, s, statistics = addnorm.add_norm(x, branch, gamma, beta)
    assert torch.equal(s, x + branch)
    torch.testing.assert_close(y, nn.functional.layer_norm(s, (8,), gamma, beta), rtol=1e-5, atol=1e-5)
    dy = torch.randn(3, 5, 8)
    gradients = addnorm.add_norm_backward(dy, s, statistics, gamma)
    s.requires_grad_()
    gamma.requires_grad_(), beta.requires_grad_()
    nn.functional.layer_norm(s, (8,), gamma, beta).backward(dy)
    for ours, theirs in zip(gradients, (s.grad, gamma.grad, beta.grad)):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    half = addnorm.rms_norm(x.bfloat16())
    assert half.dtype == torch.bfloat16 and half.shape == x.shape
    d_branch, d_skip, d_gain = addnorm.residual_add_backward(dy, x, branch, gain=2.0)
    torch.testing.assert_close(d_branch, 2 * dy)
    torch.testing.assert_close(d_gain, (branch * dy).sum((0, 1)))
    lanes = addnorm.lanes(x, x[:, 0], None, torch.ones(5), torch.ones(5), norm="rms")
    assert all(isinstance(t, torch.Tensor) for t in lanes)
    torch.testing.assert_close(lanes.sum, x + x[:, :1])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_pytorchs(threads):
    """The number of threads is PyTorch's, whatever OpenMP's is."""
    program = """if True:
        import numpy, os, sys, torch
        torch.set_num_threads(int(sys.argv[1]))
        from addnorm import torch as at
        count = lambda: len(os.listdir("/proc/self/task"))
        x = torch.from_numpy(numpy.ones((4096, 256)))  # PyTorch itself has started no thread
        before = count()
        at.norm(x)
        print(count() - before)"""
    environment = dict(os.environ, OMP_NUM_THREADS="3")
    run = subprocess.run([sys.executable, "-c", program, str(threads)], env=environment, check=True,
                         capture_output=True, text=True)
    assert int(run.stdout) == threads - 1


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layer_norm_is_pytorchs(shape, affine, dtype):
    theirs = nn.LayerNorm(shape, 1e-4, affine)
    for p in theirs.parameters():
        nn.init.normal_(p)
    theirs = theirs.to(dtype)
    ours = at.LayerNorm(shape, 1e-4, affine).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    x, dy = torch.randn(2, 5, 2, 3, 8, dtype=dtype)
    results = []
    for module in ours, theirs:
        t = x.clone().requires_grad_()
        y = module(t)
        y.backward(dy)
        assert y.dtype == dtype and y.shape == x.shape
        results.append([y, t.grad] + [p.grad for p in module.parameters()])
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}[dtype]
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_sums_of_different_types_are_as_wide_as_pytorchs():
    x, branch = torch.randn(3, 8), torch.randn(3, 8).bfloat16().requires_grad_()
    y, s = at.add_norm(x, branch)
    assert s.dtype == (x + branch).dtype and torch.equal(s, x + branch)
    y.sum().backward()
    assert branch.grad.dtype == torch.bfloat16


def test_what_does_not_go_together_is_named():
    with pytest.raises(addnorm.Error, match=r"x has the shape \(3, 7\), must end with \(8,\)"):
        at.LayerNorm(8)(torch.ones(3, 7))
    with pytest.raises(addnorm.Error, match=r"branch has the shape \(8,\), must have \(3, 8\)"):
        at.AddNorm(at.LayerNorm(8))(torch.ones(3, 8), torch.ones(8))
    with pytest.raises(TypeError, match="x has the type torch.int32, must have a floating-point type"):
        at.norm(torch.ones(3, 8, dtype=torch.int32))
    with pytest.raises(addnorm.Error, match=r"weight has the shape \(7,\), must have \(8,\)"):
        at.norm(torch.ones(3, 8), torch.ones(7))
    assert at.LayerNorm(8)(torch.ones(0, 8)).shape == (0, 8)


@pytest.mark.parametrize("norm", [at.LayerNorm(8), at.RMSNorm(8), at.RMSNorm(8, gamma_form="one_plus")],
                         ids=str)
def test_add_norm_is_the_sum_and_the_norm(norm):
    x, branch = drawn(3, 8, dtype=torch.float), drawn(3, 8, dtype=torch.float)
    y, s = at.AddNorm(norm)(x, branch)
    assert torch.equal(s, x + branch) and torch.equal(y, norm(x + branch))
    assert not norm.weight.grad


def encoder(norm_first, dropout=0.0, batch_first=True, activation="relu"):
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout, activation, batch_first=batch_first,
                                       norm_first=norm_first)
    stack = nn.TransformerEncoder(layer, 6, nn.LayerNorm(32) if norm_first else None)
    for p in stack.parameters():  # the layers start as copies of one
        nn.init.normal_(p, std=0.2) if p.dim() > 1 else nn.init.normal_(p, float(p.mean().detach()), 0.1)
    return stack


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_a_converted_encoder_has_the_same_outputs_and_gradients(norm_first, batch_first, training):
    theirs = encoder(norm_first, batch_first=batch_first).double().train(training)
    ours = at.convert(copy.deepcopy(theirs)).model
    assert all(type(layer) is at.TransformerEncoderLayer for layer in ours.layers)
    x = torch.randn(5, 7, 32, dtype=torch.double)
    padding = torch.zeros(x.shape[:2] if batch_first else (x.shape[1], x.shape[0]), dtype=torch.bool)
    padding[1, -2:] = True
    results = []
    for model in ours, theirs:
        t = x.clone().requires_grad_()
        y = model(t, src_key_padding_mask=padding)
        y.sin().sum().backward()
        results.append([y, t.grad] + [p.grad for p in model.parameters()])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_converted_encoder_has_the_same_loss_curve(norm_first, dtype, tolerance):
    """Dropout is PyTorch's, so the same seed drops the same values. The activation is GELU, because a ReLU has another
    gradient if rounding moves a value across 0."""
    theirs = encoder(norm_first, dropout=0.1, activation="gelu").to(dtype)
    curves = []
    x = torch.randn(8, 16, 32, dtype=dtype)
    target = x.flip(1).cumsum(1).tanh()
    for model in at.convert(copy.deepcopy(theirs)).model, theirs:
        torch.manual_seed(1)
        adam = torch.optim.Adam(model.parameters(), 1e-3)
        losses = []
        for _ in range(40):
            adam.zero_grad()
            loss = nn.functional.mse_loss(model(x), target)
            loss.backward()
            adam.step()
            losses.append(loss.item())
        curves.append(losses)
    assert curves[0][-1] < 0.7 * curves[0][0]
    assert curves[0] == pytest.approx(curves[1], rel=tolerance)


class LlamaRMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(n))
        self.variance_epsilon = eps

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(x.dtype)


class GemmaRMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))
        self.eps = eps

    def forward(self, x):
        wide = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * (1 + self.weight.float())).type_as(x)


class OddRMSNorm(LlamaRMSNorm):
    """An RMSNorm that adds ε after the root."""

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.variance_epsilon) * self.weight


class GatedRMSNorm(LlamaRMSNorm):
    def forward(self, x, gate):
        return super().forward(x * gate)


@pytest.mark.parametrize("scale", [1, 1e-6])
@pytest.mark.parametrize("make, form", [(LlamaRMSNorm, "plain"), (GemmaRMSNorm, "one_plus"),
                                        (OddRMSNorm, None), (GatedRMSNorm, None)])
def test_an_rms_norm_is_known_by_what_it_gives(make, form, scale):
    module = make(16)
    with torch.no_grad():
        module.weight.mul_(scale)
    conversion = at.convert(nn.Sequential(module))
    assert conversion.model[0] is module
    if form is None:
        assert type(module) is make and not conversion.converted
        assert conversion.left["0"].startswith(make.__name__)
        return
    assert type(module) is at.RMSNorm and module.gamma_form == form
    assert conversion.converted == {"0": "RMSNorm"} and not conversion.left
    x = torch.randn(4, 16)
    torch.testing.assert_close(module(x), make.forward(copy.copy(module), x))


def test_convert_keeps_everything_but_the_kernels():
    class Custom(nn.LayerNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    shared = nn.LayerNorm(8)
    model = nn.ModuleDict({"a": shared, "b": shared, "own": Custom(8)}).eval()
    seen = []
    shared.register_forward_hook(lambda *_: seen.append(1))
    parameters, state = list(map(id, model.parameters())), torch.get_rng_state()
    conversion = at.convert(model)
    assert conversion.model is model and conversion.converted == {"a": "LayerNorm"}
    assert conversion.left == {"own": "Custom is a subclass, which may compute something else"}
    assert str(conversion) == "1 modules converted, 1 left\n  own: " + conversion.left["own"]
    assert not at.convert(model).converted
    assert model["a"] is model["b"] is shared and type(shared) is at.LayerNorm
    assert type(model["own"]) is Custom and not shared.training
    assert list(map(id, model.parameters())) == parameters
    assert torch.equal(torch.get_rng_state(), state)
    shared(torch.ones(1, 8))
    assert seen == [1]
    layer = nn.TransformerEncoderLayer(8, 2)
    assert at.convert(layer, fuse=False).left == {"": "fuse is False"}
    assert type(layer) is nn.TransformerEncoderLayer and type(layer.norm1) is at.LayerNorm
    assert type(at.TransformerEncoderLayer(8, 2).norm1) is at.LayerNorm


def test_a_converted_model_under_autocast_has_the_types_of_pytorchs():
    theirs = encoder(norm_first=False)
    ours = at.convert(copy.deepcopy(theirs)).model
    x = torch.randn(2, 5, 32)
    with torch.autocast("cpu", torch.bfloat16):
        a, b = ours(x), theirs(x)
    assert a.dtype == b.dtype
    torch.testing.assert_close(a.float(), b.float(), rtol=0, atol=0.15)
    a.float().square().mean().backward()
    assert all(p.grad.dtype == torch.float for p in ours.parameters())


# ---- Tensors that the kernels cannot read ------------------------------------------------------------


class Elsewhere(torch.Tensor):
    """A tensor that claims to be on a GPU: no kernel can read its values. Operators on it
    compute with the inner tensor."""

    device = property(lambda self: torch.device("cuda", 0))
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        inner = tree_map(lambda value: value.inner if isinstance(value, cls) else value, (args, kwargs or {}))
        result = function(*inner[0], **inner[1])
        return tree_map(lambda value: cls(value) if isinstance(value, torch.Tensor) else value, result)


class Tagged(torch.Tensor):
    """A subclass without its own operators, like those of fastai."""


def moved(model):
    """Returns the model with parameters like those after model.to("cuda")."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = nn.Parameter(Elsewhere(parameter.detach()))
    return model


def one_of_each():
    torch.manual_seed(1)
    modules = {"LayerNorm": at.LayerNorm(8), "two axes": at.LayerNorm((5, 8)), "RMSNorm": at.RMSNorm(8),
               "1 + γ": at.RMSNorm(8, gamma_form="one_plus"), "DyT": at.DyT(8), "Derf": at.Derf(8)}
    for parameter in nn.ModuleDict(modules).parameters():
        nn.init.normal_(parameter, 1, 0.2)
    return modules


NAMES = list(one_of_each())


@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_another_device_are_computed_by_pytorch(name):
    module, x = one_of_each()[name], torch.randn(2, 5, 8)
    expected = module(x)
    torch.testing.assert_close(moved(module)(Elsewhere(x)).inner, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_converted_model_that_moves_to_another_device_goes_on_computing(norm_first):
    theirs = encoder(norm_first)
    ours, x = at.convert(copy.deepcopy(theirs)).model, torch.randn(2, 5, 32)
    expected = theirs(x)
    torch.testing.assert_close(moved(ours)(Elsewhere(x)).inner, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_meta_tensors_give_meta_tensors_of_the_right_shape_and_type(name, dtype):
    module = one_of_each()[name].to("meta", dtype)
    y = module(torch.ones(2, 5, 8, device="meta", dtype=dtype))
    assert (y.device.type, tuple(y.shape), y.dtype) == ("meta", (2, 5, 8), dtype)
    if isinstance(module, (at.LayerNorm, at.RMSNorm)):
        x = torch.ones(2, 5, 8, device="meta", dtype=dtype, requires_grad=True)
        y, s = at.AddNorm(module)(x, torch.ones_like(x))
        assert y.device.type == s.device.type == "meta" and y.dtype == s.dtype == dtype and s.shape == x.shape
        y.sum().backward()
        assert x.grad.device.type == "meta"


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_converted_encoder_runs_on_the_meta_device(norm_first, training):
    model = at.convert(encoder(norm_first).to("meta").train(training)).model
    assert type(model.layers[0]) is at.TransformerEncoderLayer
    y = model(torch.ones(2, 5, 32, device="meta"))
    assert y.device.type == "meta" and y.shape == (2, 5, 32)


@pytest.mark.parametrize("name", NAMES)
def test_fake_tensors_give_fake_tensors(name):
    from torch._subclasses import FakeTensorMode
    module, mode = one_of_each()[name], FakeTensorMode()
    for key, parameter in module.named_parameters():
        module._parameters[key] = mode.from_tensor(parameter.detach())
    x = mode.from_tensor(torch.ones(2, 5, 8))
    with mode:
        y = module(x)
    assert type(y).__name__ == "FakeTensor" and tuple(y.shape) == (2, 5, 8)


@pytest.mark.parametrize("name", NAMES)
def test_a_subclass_stays_one(name):
    module, x = one_of_each()[name], torch.randn(2, 5, 8)
    y = module(x.as_subclass(Tagged))
    assert type(y) is Tagged
    torch.testing.assert_close(y.as_subclass(torch.Tensor), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_negated_views_and_gradients_of_zero(name):
    """Tensors whose values differ from the content of their memory."""
    module, x = one_of_each()[name], torch.randn(2, 5, 8, dtype=torch.cfloat)
    assert x.conj().imag.is_neg()
    torch.testing.assert_close(module(x.conj().imag), module(-x.imag), rtol=1e-5, atol=1e-5)
    real = x.real.clone().requires_grad_()
    dy = torch._efficientzerotensor((2, 5, 8))
    assert not torch.autograd.grad(module(real), real, dy)[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_batched_gradients_are_the_gradients_one_by_one(name):
    module = one_of_each()[name].double()
    x, dy = torch.randn(2, 5, 8).double().requires_grad_(), torch.randn(3, 2, 5, 8).double()
    y = module(x)
    wanted = [x, *module.parameters()]
    batched = torch.autograd.grad(y, wanted, dy, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        for a, b in zip(batched, torch.autograd.grad(y, wanted, dy[i], retain_graph=True)):
            torch.testing.assert_close(a[i], b)


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_derivatives_are_those_of_central_differences(name):
    from torch.autograd import forward_ad
    module = one_of_each()[name].double()
    x, tangent = torch.randn(2, 2, 5, 8).double()
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(module(forward_ad.make_dual(x, tangent))).tangent
    step = 1e-6 * tangent
    torch.testing.assert_close(found, (module(x + step) - module(x - step)) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_transforms_of_functions_see_pytorchs_operators(name):
    functorch = pytest.importorskip("torch.func") if hasattr(torch, "func") else pytest.importorskip("functorch")
    module, x = one_of_each()[name].double(), torch.randn(3, 2, 5, 8).double()
    torch.testing.assert_close(functorch.vmap(module)(x), module(x))
    constant = x[0]
    torch.testing.assert_close(functorch.vmap(lambda _: module(constant))(x)[1], module(constant))
    found = functorch.grad(lambda x: module(x).sin().sum())(x)
    x.requires_grad_()
    torch.testing.assert_close(found, torch.autograd.grad(module(x).sin().sum(), x)[0])


def test_a_graph_that_is_recorded_has_the_norm_in_it():
    fx = pytest.importorskip("torch.fx.experimental.proxy_tensor")
    norm, x = at.LayerNorm(8), torch.randn(3, 8)
    graph = fx.make_fx(norm)(x)
    torch.testing.assert_close(graph(2 * x + 1), norm(2 * x + 1), rtol=1e-5, atol=1e-5)


def test_shapes_without_features_are_pytorchs_affair():
    theirs = nn.LayerNorm(0)
    ours = at.convert(nn.Sequential(nn.LayerNorm(0))).model[0]
    x = torch.ones(3, 0)
    assert ours(x).shape == theirs(x).shape


# ---- convert, if the kernels cannot compute ----------------------------------------------------------


def test_convert_converts_what_is_on_another_device():
    """PyTorch's functions compute it there, unless there are kernels."""
    model = moved(nn.Sequential(nn.LayerNorm(8), nn.LayerNorm(8, elementwise_affine=False),
                                nn.TransformerEncoderLayer(8, 2)))
    conversion = at.convert(model)
    assert set(conversion.converted) == {"0", "1", "2", "2.norm1", "2.norm2"} and not conversion.left


def test_a_model_without_values_is_converted_and_gets_them_later():
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)).to("meta")
    assert at.convert(model).converted == {"0": "LayerNorm"}
    model.to_empty(device="cpu")
    for module in model:
        module.reset_parameters()
    x = torch.randn(3, 8)
    torch.testing.assert_close(model[0](x), nn.functional.layer_norm(x, (8,)), rtol=1e-5, atol=1e-5)


# ---- Arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [8, (8,), [8], torch.Size([8]), nn.LayerNorm(8), at.LayerNorm(8)], ids=str)
def test_add_norm_takes_a_width_or_a_norm(given):
    x, branch = torch.randn(2, 3, 8)
    y, s = at.AddNorm(given)(x, branch)
    assert torch.equal(s, x + branch)
    assert torch.equal(y, at.norm(s))


def test_add_norm_takes_any_module_that_normalizes():
    x, branch = torch.randn(2, 3, 8)
    for norm in LlamaRMSNorm(8), at.DyT(8), OddRMSNorm(8):
        y, s = at.AddNorm(norm)(x, branch)
        assert torch.equal(s, x + branch) and torch.equal(y, norm(s))


def test_a_norm_that_is_replaced_after_the_conversion_computes_in_its_own_way():
    layer = at.convert(nn.TransformerEncoderLayer(8, 2, 16, 0.0)).model
    layer.norm1 = LlamaRMSNorm(8)
    x = torch.randn(5, 2, 8)
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0)
    theirs.norm1 = LlamaRMSNorm(8)
    theirs.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), theirs(x), rtol=1e-5, atol=1e-5)


X = torch.ones(3, 8)
WRONG = {
    "norm is '8', must be a module": lambda: at.AddNorm("8"),
    "norm is None, must be a module": lambda: at.AddNorm(None),
    "norm is 8.0, must be a module": lambda: at.AddNorm(8.0),
    "norm is True, must be an integer": lambda: at.AddNorm(True),
    "norm is 0, must be one positive": lambda: at.AddNorm(0),
    "normalized_shape is 0, must be one positive": lambda: at.LayerNorm(0),
    "normalized_shape is '8', must be an integer": lambda: at.LayerNorm("8"),
    r"normalized_shape is \(\), must be one positive": lambda: at.LayerNorm(()),
    "eps is 'x', must be a number": lambda: at.LayerNorm(8, "x"),
    "eps is -1": lambda: at.LayerNorm(8, -1),
    r"features is LayerNorm\(": lambda: at.RMSNorm(nn.LayerNorm(8)),
    "features is 8.0, must be an integer": lambda: at.RMSNorm(8.0),
    "eps is 'layer', must be a number": lambda: at.RMSNorm(8, "layer"),
    "gamma_form \"two\" is unknown, must be one of plain, one_plus": lambda: at.RMSNorm(8, gamma_form="two"),
    "features is '8', must be an integer": lambda: at.DyT("8"),
    r"features is \(3, 8\), must be one positive integer": lambda: at.DyT((3, 8)),
    "alpha is '1', must be a number": lambda: at.DyT(8, "1"),
    "alpha is None, must be a number": lambda: at.Derf(8, None),
    "x is of type list, must be a torch.Tensor": lambda: at.norm([1.0]),
    "x is of type float, must be a torch.Tensor": lambda: at.LayerNorm(8)(1.0),
    "branch is of type NoneType, must be a torch.Tensor": lambda: at.add_norm(X, None),
    "branch is of type int, must be a torch.Tensor": lambda: at.AddNorm(8)(X, 1),
    "weight is of type int, must be a torch.Tensor": lambda: at.norm(X, 1),
    "options is 'rms', must be an addnorm.Norm": lambda: at.norm(X, options="rms"),
    "shape is 8.0, must be an integer": lambda: at.norm(X, shape=8.0),
    r"x has the shape \(\), must end with an axis": lambda: at.norm(torch.tensor(1.0)),
    r"bias has the shape \(3, 8\), must have \(8,\)": lambda: at.norm(X, None, X),
    "x has the type torch.complex64": lambda: at.DyT(8)(torch.ones(3, 8, dtype=torch.cfloat)),
    "model is of type int, must be a torch.nn.Module": lambda: at.convert(768),
    "kind is 64, must be a string": lambda: addnorm.Norm(64),
    r"kind is LayerNorm\(": lambda: addnorm.Norm(nn.LayerNorm(8)),
    "kind": lambda: addnorm.Norm("batch"),
    "eps is None, must be a number": lambda: addnorm.Norm("layer", None),
    "output_scale is 'x', must be a number": lambda: addnorm.Norm(output_scale="x"),
    "eps is nan": lambda: addnorm.Norm(eps=float("nan")),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_argument_is_named(message):
    with pytest.raises((TypeError, addnorm.Error), match=f"^{message}"):
        WRONG[message]()


def test_what_users_write_is_understood():
    assert at.RMSNorm((5, 8)).weight.shape == (5, 8)
    assert at.DyT(8, 1)(X).dtype == torch.float32
    assert at.norm(X, shape=8).shape == (3, 8)
    made = at.RMSNorm(8, gamma_form="one_plus", device="meta", dtype=torch.bfloat16)
    assert made.weight.device.type == "meta" and made.weight.dtype == torch.bfloat16
    made.to_empty(device="cpu").reset_parameters()
    assert not made.weight.any()


# ---- The same bits in any batch ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_row_has_the_same_bits_in_any_batch_and_with_any_number_of_threads(kind, dtype):
    """docs/batch-invariance.md promises this; bench/batch_invariance.py compares it with PyTorch."""
    torch.manual_seed(0)
    rows, options = 67, addnorm.Norm(kind)
    x, f, dy = (torch.randn(rows, 96).to(dtype) for _ in range(3))
    gamma, beta = torch.randn(96), torch.randn(96) if kind == "layer" else None

    def run(x, f, dy):
        inputs = [t.clone().requires_grad_() for t in (x, f, gamma, beta) if t is not None]
        y, s = at.add_norm(*inputs, *[None] * (4 - len(inputs)), options)
        torch.autograd.backward([y, s], [dy, dy])
        return y.detach(), inputs[0].grad, [t.grad for t in inputs[2:]]

    threads = torch.get_num_threads()
    try:
        y, dx, parameters = run(x, f, dy)
        for n in 1, 2, 5, 32:
            part = run(x[:n], f[:n], dy[:n])
            assert torch.equal(part[0], y[:n]) and torch.equal(part[1], dx[:n])
        order = torch.randperm(rows)
        shuffled = run(x[order], f[order], dy[order])
        assert torch.equal(shuffled[0], y[order]) and torch.equal(shuffled[1], dx[order])
        for count in 1, 2, 4:
            torch.set_num_threads(count)
            again = run(x, f, dy)
            assert torch.equal(again[0], y) and torch.equal(again[1], dx) and all(map(torch.equal, again[2], parameters))
    finally:
        torch.set_num_threads(threads)
