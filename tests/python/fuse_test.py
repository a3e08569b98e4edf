"""addnorm.torch.Fusion: residual sums and norms in the graphs of torch.compile, from PyTorch 2.5 on."""

import contextlib
import copy
import io
import operator
import re
from pathlib import Path

import addnorm
import pytest

torch = pytest.importorskip("torch", minversion="2.5")
from addnorm import torch as at  # noqa: E402
from addnorm.torch import fusion as fusion_module  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

WIDTH = 16


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
    torch._dynamo.reset()


class Recorder:
    """A backend that runs graphs as they are and keeps their operators."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs, **_):
        self.graphs.append([str(node.target) for module in graph.modules() if hasattr(module, "graph")
                            for node in module.graph.nodes])
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    def count(self, name):
        return sum(target == f"addnorm.{name}.default" for graph in self.graphs for target in graph)


def output_of(model, *inputs, **options):
    y = model(*inputs, **options)
    return getattr(y, "logits", y)


def results(model, *inputs, **options):
    """Returns the output and the gradients of the parameters and inputs, by name."""
    inputs = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    if isinstance(model, nn.Module):
        model.zero_grad()
    y = output_of(model, *inputs, **options)
    y.float().sin().sum().backward()
    parameters = dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
    gradients = {**parameters, **{f"input {i}": x for i, x in enumerate(inputs) if x.requires_grad}}
    return {"output": y.detach(),
            **{name.replace("_orig_mod.", ""): t.grad.clone() for name, t in gradients.items() if t.grad is not None}}


def error(values, exact):
    return (values.double() - exact).norm().item()


def assert_as_exact(model, fused, inputs, **options):
    """Asserts that the fused model's results have no larger errors than the model's own, up to the type's rounding.
    The exact results are those of the same parameters in float64."""
    wide = copy.deepcopy(model).double() if isinstance(model, nn.Module) else model
    exact = results(wide, *[x.double() if x.is_floating_point() else x for x in inputs], **options)
    theirs = results(model, *inputs, **options)
    ours = results(fused, *inputs, **options)
    assert ours.keys() == theirs.keys() == exact.keys()
    for name, values in ours.items():
        assert values.dtype == theirs[name].dtype and values.shape == theirs[name].shape
        steps = 1 if values.dtype in (torch.bfloat16, torch.float16) else 8
        rounding = steps * torch.finfo(values.dtype).eps * exact[name].norm().item()
        assert error(values, exact[name]) <= 1.2 * error(theirs[name], exact[name]) + rounding, name


def fuse(function, *inputs, **options):
    """Returns the function or model, compiled, with its fusion and operators, after a first call."""
    recorder = Recorder()
    fusion = at.Fusion(recorder)
    compiled = torch.compile(function, backend=fusion, fullgraph=True, **options)
    output_of(compiled, *inputs)
    return compiled, fusion, recorder


def head(fusion):
    return str(fusion).splitlines()[0]


class Block(nn.Module):
    """A pre-norm block with module and functional norms; its last norm has no factors."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH, eps=1e-6)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.linear(self.first(x))
        x = x + self.linear(self.second(x))
        x = torch.add(x, self.linear(F.layer_norm(x, (WIDTH,), self.first.weight, None)))
        x = x.add(self.linear(F.rms_norm(x, [WIDTH], eps=1e-3)))
        return F.layer_norm(x, (WIDTH,)) + x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_sums_and_norms_of_a_block_are_fused(dtype):
    model, x = Block().to(dtype), torch.randn(2, 3, WIDTH, dtype=dtype)
    compiled, fusion, recorder = fuse(model, x)
    assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"
    assert (recorder.count("add_norm"), recorder.count("norm")) == (4, 1)
    assert fusion.norms[0] == ("first", None)
    assert_as_exact(model, compiled, [x])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor_compiles_the_fused_graph(dtype, dynamic):
    model, x = Block().to(dtype), torch.randn(2, 3, WIDTH, dtype=dtype)
    fusion = at.Fusion()
    compiled = torch.compile(model, backend=fusion, fullgraph=True, dynamic=dynamic)
    assert_as_exact(model, compiled, [x])
    assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"
    if dynamic:
        assert_as_exact(model, compiled, [torch.randn(5, 4, WIDTH, dtype=dtype)])
        assert len(fusion.norms) == 5


def test_a_changed_eps_is_compiled_again():
    model, x = Block(), 1e-3 * torch.randn(2, 3, WIDTH)
    fusion = at.Fusion("aot_eager")
    compiled = torch.compile(model, backend=fusion, fullgraph=True, dynamic=True)
    assert_as_exact(model, compiled, [x])
    model.first.eps = model.second.eps = 1e-2
    assert_as_exact(model, compiled, [x])


def test_the_example_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs/model.md").read_text()
    section = page.split("## Fusing sums and norms")[1]
    code, expected = (re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)[1] for language in ("python", "text"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "example"})
    assert printed.getvalue() == expected


def test_a_mode_reaches_inductor():
    model, x = Block(), torch.randn(2, WIDTH)
    fusion = at.Fusion()
    compiled = torch.compile(model, backend=fusion, mode="max-autotune-no-cudagraphs")
    torch.testing.assert_close(compiled(x), model(x))
    assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"


def test_options_reach_inductor():
    compiled = torch.compile(Block(), backend=at.Fusion(), options={"no such option": True})
    with pytest.raises(Exception, match="no such option"):
        compiled(torch.randn(2, WIDTH))


def llama(x, w, b):
    dtype = x.dtype
    h = x.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(dtype)


def gemma(x, w, b):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w.float())).type_as(x)


def t5(x, w, b):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return w * (x * torch.rsqrt(variance + 1e-6)).to(w.dtype)


def root(x, w, b):
    h = x.float()
    return ((h / torch.sqrt(torch.mean(h * h, dim=-1, keepdim=True) + 1e-5)) * w).to(x.dtype)


def power(x, w, b):
    h = x.float()
    return (h * torch.pow(h.square().mean(dim=[-1], keepdim=True) + 1e-5, -0.5) * w.float() + b.float()).to(x.dtype)


def centered(x, w, b):
    h = x.float()
    u = h - h.mean(-1, keepdim=True)
    return (w.float() * (u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-5)) + b.float()).to(x.dtype)


def variance(x, w, b):
    h = x.float()
    mean, var = h.mean(-1, keepdim=True), h.var(-1, keepdim=True, unbiased=False)
    return ((h - mean) / (var + 1e-5).sqrt() * w + b).to(x.dtype)


def annotated(x, w, b):
    """The LayerNorm of The Annotated Transformer: ε in the deviation, unbiased variance."""
    h = x.float()
    return (w * ((h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-3)) + b).to(x.dtype)


def functional_in_float32(x, w, b):
    return F.layer_norm(x.float(), (WIDTH,), w.float(), b.float(), 1e-5).type_as(x)


WRITTEN = [llama, gemma, t5, root, power, centered, variance, annotated, functional_in_float32]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", WRITTEN, ids=lambda f: f.__name__)
def test_norms_that_are_written_out_are_fused(norm, dtype):
    def block(x, f, w, b):
        s = x + f
        return norm(s, w, b) * f + s

    inputs = [torch.randn(n, dtype=dtype) for n in ((2, 3, WIDTH), (2, 3, WIDTH), WIDTH, WIDTH)]
    compiled, fusion, recorder = fuse(block, *inputs)
    assert str(fusion) == "1 of 1 norms and 1 of 1 sums fused"
    assert not {"rsqrt", "mean", "pow"} & {name for graph in recorder.graphs for name in graph}
    assert_as_exact(block, compiled, inputs)


class Written(nn.Module):
    """A model whose norms are written out."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(WIDTH) for _ in range(3)])
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for weight in self.weights:
            x = x + self.linear(llama(x, weight, None)).tanh()
        return gemma(x, self.weights[0], None)


def test_a_model_with_written_norms():
    model, x = Written(), torch.randn(4, WIDTH)
    compiled, fusion, _ = fuse(model, x)
    assert head(fusion) == "4 of 4 norms and 3 of 3 sums fused"
    assert_as_exact(model, compiled, [x])


def normalized(x):
    return F.layer_norm(x, x.shape[-1:])


def over_tokens(x, f):
    s = x + f
    return s * torch.rsqrt(s.pow(2).mean(1, keepdim=True) + 1e-6)


def over_two_axes(x, f):
    return F.layer_norm(x + f, x.shape[-2:])


def of_a_broadcast_sum(x, f):
    return normalized(x + f[:, :1])


def of_a_sum_in_place(x, f):
    s = x * 1
    s += f
    return normalized(s)


def of_a_scaled_sum(x, f):
    return normalized(torch.add(x, f, alpha=2))


def changed_between(x, f):
    s = x + f
    s[:, 0] = 0
    return normalized(s)


def view_changed_between(x, f):
    s = x + f
    s[:, 0].mul_(2)
    return normalized(s)


def relu_in_place(x, f):
    s = x + f
    return F.relu(s, True) + normalized(s)


def changed_after(x, f):
    s = x + f
    with torch.no_grad():
        y = normalized(s)
    s.mul_(2)
    return y + s


def statistics_changed(x, f):
    s = x + f
    mean = s.pow(2).mean(-1, keepdim=True)
    mean.mul_(2)
    return s * torch.rsqrt(mean + 1e-6)


def copy_changed(x, f):
    s = (x + f).bfloat16()
    h = s.float()
    h[:, 0] = 1
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16()


def statistics_without_gradients(x, f):
    s = x + f
    with torch.no_grad():
        factor = torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + 1e-6)
    return s * factor


def of_another_tensor(x, f):
    return x * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)


def in_narrow_type(x, f):
    s = (x + f).bfloat16()
    return (s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + 1e-6)).float()


def with_a_later_weight(x, f):
    s = x + f
    return F.rms_norm(s, (WIDTH,), s[0, 0].sin(), 1e-6)


def of_a_transposed_sum(x, f):
    s = (x + f).transpose(0, 1)
    return s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + 1e-6)


def with_a_scale_of_each_row(x, f):
    """The norm is fused, and the scale remains a product."""
    s = x + f
    return s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + f[:, :1])


def sum_without_gradients(x, f):
    with torch.no_grad():
        s = x + f
    return normalized(s) * x * f


@pytest.mark.parametrize("function, options, changes", [
    *((getattr(operator, name), {}, True) for name in (
        "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift",
        "irshift")),
    (operator.setitem, {}, True), (operator.add, {}, False), (operator.getitem, {}, False), (operator.inv, {}, False),
    (torch.relu_, {}, True), (torch.relu, {}, False), (F.relu, {"inplace": True}, True), (F.relu, {}, False),
    (torch.add, {}, False), (torch.ops.aten.add_.Tensor, {}, True), (torch.ops.aten.add.Tensor, {}, False)])
def test_nodes_that_change_their_first_argument(function, options, changes):
    graph = torch.fx.Graph()
    x, f = graph.placeholder("x"), graph.placeholder("f")
    has_two = function not in (operator.inv, torch.relu_, torch.relu, F.relu)
    node = graph.call_function(function, (x, f) if has_two else (x,), options)
    assert bool(fusion_module._mutated(node)) == changes


@pytest.mark.parametrize("function, norms, sums, why", [
    (over_tokens, 0, 0, "it normalizes another axis than the last"),
    (over_two_axes, 0, 0, "it normalizes several axes together"),
    (of_a_broadcast_sum, 1, 0, "it broadcasts"),
    (of_a_sum_in_place, 1, 0, "it is computed in place"),
    (of_a_scaled_sum, 1, 0, "it has a factor"),
    (changed_between, 0, 0, "its input or weight is changed in place"),
    (view_changed_between, 0, 0, "its input or weight is changed in place"),
    (relu_in_place, 0, 0, "its input or weight is changed in place"),
    (changed_after, 0, 0, "its input or weight is changed in place"),
    (statistics_changed, 0, 0, "its input or weight is changed in place"),
    (copy_changed, 0, 0, "its input or weight is changed in place"),
    (statistics_without_gradients, 0, 0, "it begins and ends in different modes"),
    (of_another_tensor, None, 0, ""),
    (in_narrow_type, 0, 0, "it is computed in bfloat16"),
    (with_a_later_weight, 1, 0, "the norm's weight is computed after it"),
    (of_a_transposed_sum, 0, 0, "its result is not contiguous"),
    (with_a_scale_of_each_row, 1, 1, ""),
    (sum_without_gradients, 1, 0, "its norm is in another mode"),
], ids=lambda v: getattr(v, "__name__", None))
def test_sites_that_the_operator_does_not_compute_stay(function, norms, sums, why):
    inputs = [torch.randn(2, 3, WIDTH) for _ in range(2)]
    compiled, fusion, recorder = fuse(function, *inputs)
    assert [site[1] is None for site in fusion.norms] == ([] if norms is None else [norms == 1])
    assert (recorder.count("norm"), recorder.count("add_norm")) == ((norms or 0) - sums, sums)
    assert why in str(fusion)
    ours, theirs = (results(f, *inputs) for f in (compiled, function))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name])


def test_two_norms_of_one_sum_share_it():
    def block(x, f):
        s = x + f
        return normalized(s) * F.rms_norm(s, (WIDTH,), None, 1e-6) + s

    inputs = [torch.randn(3, WIDTH) for _ in range(2)]
    compiled, fusion, recorder = fuse(block, *inputs)
    assert str(fusion) == "2 of 2 norms and 1 of 1 sums fused"
    assert (recorder.count("norm"), recorder.count("add_norm")) == (1, 1)
    assert_as_exact(block, compiled, inputs)


def test_types_of_a_sum_are_promoted_under_autocast():
    model, x = Block(), torch.randn(2, 3, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        compiled, fusion, _ = fuse(model, x)
        assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"
        ours, theirs = (results(m, x) for m in (compiled, model))
    for name in theirs:
        assert ours[name].dtype == theirs[name].dtype
        torch.testing.assert_close(ours[name], theirs[name], rtol=0.05, atol=0.05 * theirs[name].abs().max().item())


def test_autocast_inside_the_model():
    def block(x, f, w):
        with torch.autocast("cpu", torch.bfloat16):
            f = f @ w
            s = x + f
            return normalized(s) + s

    inputs = torch.randn(2, 3, WIDTH), torch.randn(2, 3, WIDTH), torch.randn(WIDTH, WIDTH)
    compiled, fusion, _ = fuse(block, *inputs)
    assert str(fusion) == "1 of 1 norms and 1 of 1 sums fused"
    torch.testing.assert_close(compiled(*inputs), block(*inputs))


def test_no_gradients():
    model, x = Block(), torch.randn(2, 3, WIDTH)
    with torch.no_grad():
        compiled, fusion, _ = fuse(model, x)
        torch.testing.assert_close(compiled(x), model(x))
    assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"


def test_checkpoints_are_fused_inside():
    from torch.utils.checkpoint import checkpoint

    model, x = Block(), torch.randn(2, 3, WIDTH)

    def run(x):
        return checkpoint(model, x, use_reentrant=False)

    compiled, fusion, _ = fuse(run, x)
    assert head(fusion) == "5 of 5 norms and 4 of 4 sums fused"
    ours, theirs = (results(f, x) for f in (compiled, run))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name])


def test_transforms_are_left_to_pytorch():
    x = torch.randn(2, 3, WIDTH)
    function = torch.vmap(lambda x: normalized(x + x.sin()))
    compiled, fusion, recorder = fuse(function, x)
    assert recorder.count("norm") == recorder.count("add_norm") == 0
    torch.testing.assert_close(compiled(x), function(x))


def test_tensors_without_kernels_are_left(monkeypatch):
    monkeypatch.setattr(fusion_module.operators, "take", lambda *_: False)
    x = torch.randn(2, 3, WIDTH)
    _, fusion, recorder = fuse(Block(), x)
    assert head(fusion) == "0 of 5 norms and 0 of 4 sums fused"
    assert "there are no kernels for float32 on cpu" in str(fusion)
    assert recorder.count("norm") == recorder.count("add_norm") == 0


def test_graph_breaks_are_those_of_the_model():
    class Broken(Block):
        def forward(self, x):
            x = x + self.linear(self.first(x))
            torch._dynamo.graph_break()
            return self.second(x + self.linear(x))

    model, x = Broken(), torch.randn(2, 3, WIDTH)
    plain, recorder = Recorder(), Recorder()
    torch.compile(model, backend=plain)(x)
    torch._dynamo.reset()
    fusion = at.Fusion(recorder)
    torch.compile(model, backend=fusion)(x)
    assert len(plain.graphs) == len(recorder.graphs) == 2
    assert head(fusion) == "2 of 2 norms and 1 of 1 sums fused"


def test_older_versions_of_pytorch_raise(monkeypatch):
    monkeypatch.setattr(fusion_module, "_HAS_NORMS_IN_GRAPHS", False)
    with pytest.raises(addnorm.Error, match="must be 2.5 or newer"):
        at.Fusion()


SIZES = dict(num_hidden_layers=2, num_attention_heads=4, vocab_size=50, max_position_embeddings=32)
GATED = dict(SIZES, hidden_size=32, intermediate_size=64, num_key_value_heads=2, head_dim=8)
GPT2 = dict(n_layer=2, n_head=4, n_embd=32, vocab_size=50, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0)
# Gemma 3 normalizes queries and keys after a transposition, which leaves their rows apart.
MODELS = {"Llama": (GATED, "5 of 5 norms and 4 of 4 sums fused"),
          "Qwen3": (GATED, "9 of 9 norms and 4 of 4 sums fused"),
          "Gemma3Text": (dict(GATED, query_pre_attn_scalar=8), "9 of 13 norms and 4 of 4 sums fused"),
          "GPT2": (GPT2, "5 of 5 norms and 4 of 5 sums fused")}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name, dtype):
    transformers = pytest.importorskip("transformers")
    sizes, expected = MODELS[name]
    classes = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, classes.get(name, f"{name}ForCausalLM"))(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # also weights of norms, which begin at 1 or 0
            parameter += 0.1 * torch.randn_like(parameter)
    tokens = torch.randint(0, 50, (2, 8))
    compiled, fusion, _ = fuse(model, tokens)
    assert head(fusion) == expected
    assert_as_exact(model, compiled, [tokens])
