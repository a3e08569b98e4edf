"""addnorm.check on models whose forward runs without a graph and again in backward. Examples are reentrant checkpoints,
similar functions of other libraries, and reversible layers. Gradients are not judged there, and the report says so. The
forward is judged as usual."""

import addnorm
import pytest
import small_models

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, TOKENS = small_models.WIDTH, small_models.tokens()


class Recomputed(torch.autograd.Function):
    """A checkpoint function like those of DeepSpeed and FairScale."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        ctx.save_for_backward(x)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, gradient):
        x, = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = ctx.function(x)
        torch.autograd.backward(y, gradient)
        return None, x.grad


def reentrant(function, x):
    return checkpoint(function, x, use_reentrant=True)


def kept(function, x):
    return checkpoint(function, x, use_reentrant=False)


class Layer(small_models.Layer):
    """A layer with a recomputed part: its own method, its sublayers with their norms, or its feed-forward (`parts`)."""

    def __init__(self, run, parts, bug=None):
        super().__init__()
        self.run, self.parts, self.broken = run, parts, bug

    def attend(self, x):
        h = self.attention_norm(x)
        return self.attention(h, h, h, need_weights=False)[0]

    def feed(self, x):
        return self.feed_forward(self.feed_forward_norm(x))

    def whole(self, x):
        x = x + self.attend(x)
        f = self.feed(x)
        return {None: lambda: x + f, "residual-missing": lambda: f, "residual-twice": lambda: x + x + f}[self.broken]()

    def forward(self, x):
        if self.parts == "method":
            return self.run(self.whole, x)
        if self.parts == "halves":
            return self.run(lambda x: x + self.feed(x), self.run(lambda x: x + self.attend(x), x))
        if self.parts == "sublayers":
            x = x + self.run(self.attend, x)
            return x + self.run(self.feed, x)
        if self.parts == "feed-forward":
            x = x + self.attend(x)
            return x + self.run(self.feed_forward, self.feed_forward_norm(x))
        return self.whole(x)


class Model(small_models.Decoder):
    """A decoder whose recomputed `parts` may also be "layers", or "segments" of two layers."""

    def __init__(self, run, parts, bugs=None):
        super().__init__()
        self.run, self.parts = run, parts
        self.layers = nn.ModuleList(Layer(run, parts, (bugs or {}).get(i)) for i in range(4))

    def forward(self, tokens):
        x = self.embedding(tokens)
        steps = list(self.layers)
        if self.parts == "segments":
            steps = [nn.Sequential(*steps[:2]).forward, nn.Sequential(*steps[2:]).forward]
        for step in steps:
            x = self.run(step, x) if self.parts in ("layers", "segments") else step(x)
        return self.head(self.final_norm(x))


def report_of(run, parts, bugs=None):
    torch.manual_seed(0)
    return addnorm.check(Model(run, parts, bugs), TOKENS)


def said_of_gradients(report):
    return [why for _, why in report.coverage.left_out if "gradients in it were not judged" in why]


PARTS = ["layers", "segments", "method", "halves", "sublayers", "feed-forward"]


@pytest.mark.parametrize("parts", PARTS)
def test_no_gradient_is_judged_where_the_forward_kept_no_graph(parts):
    report = report_of(Recomputed.apply, parts)
    assert [f.name for f in report.findings] == []
    assert report.coverage.counts["sums"] == (8, 8)
    assert len(said_of_gradients(report)) == (parts != "feed-forward")  # every comparison there has gradients
    assert "without a graph" not in str(report_of(kept, parts))


@pytest.mark.parametrize("run", [reentrant, Recomputed.apply], ids=["PyTorch's", "another's"])
@pytest.mark.parametrize("parts", ["layers", "segments", "method"])
@pytest.mark.parametrize("bug", ["residual-missing", "residual-twice"])
def test_what_the_forward_shows_is_judged_there(run, parts, bug):
    report = report_of(run, parts, {1: bug})
    assert [f.name for f in report.findings] == [f"{bug}@layer 1, feed-forward"]


@pytest.mark.parametrize("parts", PARTS)
def test_checkpoints_of_pytorch_are_measured_as_if_there_were_none(parts):
    reports = [report_of(run, parts) for run in (lambda function, x: function(x), kept, reentrant)]
    expected = reports[0].numbers()
    assert any(name.endswith("grad_rms") for name in expected)
    for report in reports:
        assert report.numbers() == pytest.approx(expected, rel=1e-6)
        report.assert_sound()
    assert torch.utils.checkpoint.CheckpointFunction.__name__ == "CheckpointFunction"


def test_a_function_that_computes_otherwise_the_second_time_is_measured_without_gradients():
    cache = {}

    def keeps(function, x):
        def with_mask(x):
            if not cache:  # a non-reentrant checkpoint notices that less is computed in backward
                cache["size"] = x.square().sum()
            return function(x)
        return checkpoint(with_mask, x, use_reentrant=True)

    report = report_of(keeps, "layers")
    assert [f.name for f in report.findings] == []
    assert torch.utils.checkpoint.CheckpointFunction.__name__ == "CheckpointFunction"


def test_checkpoints_that_no_gradient_passes_stay_as_they_are():
    torch.manual_seed(0)
    model = Model(reentrant, "layers")
    for parameter in model.embedding.parameters():
        parameter.requires_grad_(False)
    with addnorm.watch(model, every=1) as watched:
        model(TOKENS).sum().backward()
    gradients = [parameter.grad for layer in list(model.layers)[:1] for parameter in layer.parameters()]
    assert all(gradient is None for gradient in gradients)
    assert any(f.rule == "gradient-missing" for f in addnorm.check(model, TOKENS).findings)


def test_a_branch_without_gradients_is_still_named():
    class Cut(Layer):
        def forward(self, x):
            x = x + self.attend(x)
            with torch.no_grad():
                f = self.feed(x)
            return x + f

    torch.manual_seed(0)
    model = Model(lambda function, x: function(x), "none")
    model.layers[1] = Cut(None, "none")
    assert "branch-detached@layer 1, feed-forward" in [f.name for f in addnorm.check(model, TOKENS).findings]


class Reversed(torch.autograd.Function):
    """A reversible layer, whose inputs are recomputed from its outputs (Gomez et al. 2017)."""

    @staticmethod
    def forward(ctx, a, b, layer):
        ctx.layer = layer
        with torch.no_grad():
            a = a + layer.attend(b)
            b = b + layer.feed(a)
        ctx.save_for_backward(a.detach(), b.detach())
        return a, b

    @staticmethod
    def backward(ctx, of_a, of_b):
        a, b = ctx.saved_tensors
        for of, read in ((ctx.layer.feed, "a"), (ctx.layer.attend, "b")):
            x = (a if read == "a" else b).detach().requires_grad_()
            with torch.enable_grad():
                f = of(x)
            torch.autograd.backward(f, of_b if read == "a" else of_a)
            if read == "a":
                b, of_a = b - f.detach(), of_a + x.grad
            else:
                a, of_b = a - f.detach(), of_b + x.grad
        return of_a, of_b, None


@pytest.mark.parametrize("is_function", [True, False])
def test_reversible_layers_are_sound(is_function):
    class Reversible(Layer):
        def forward(self, a, b):
            if is_function:
                return Reversed.apply(a, b, self)
            a = a + self.attend(b)
            return a, b + self.feed(a)

    class Network(Model):
        def forward(self, tokens):
            a = b = self.embedding(tokens)
            for layer in self.layers:
                a, b = layer(a, b)
            return self.head(self.final_norm(a + b))

    torch.manual_seed(0)
    model = Network(None, "none")
    for i in range(4):
        model.layers[i] = Reversible(None, "none")
        model.layers[i].feed_forward[2].p = 0.0
    report = addnorm.check(model, TOKENS)
    assert [f.name for f in report.findings] == []
    assert len(said_of_gradients(report)) == is_function
