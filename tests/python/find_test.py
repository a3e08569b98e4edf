"""Tests the finders on handwritten graphs of forward passes; no model runs."""

from collections import Counter
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.find.lane_coefficients import computed_in  # noqa: E402
from addnorm.probe.find.layers import Element, single_blocks  # noqa: E402
from addnorm.probe.find.streams import find_streams  # noqa: E402
from addnorm.probe.measure.declared import Declared  # noqa: E402
from addnorm.probe.measure.profile import Site  # noqa: E402
from addnorm.probe.measure.scores import fused_options  # noqa: E402
from addnorm.probe.record.graph import Enter, Graph, Leave, Op, Value  # noqa: E402
from torch import nn  # noqa: E402

SHAPE = 2, 3, 32
NAMED = {"attention": (), "feed_forward": ()}


class Layer(nn.Module):
    pass


class Writer:
    """Builds a graph, operator by operator."""

    def __init__(self):
        self.graph = Graph({})
        self._count = 0
        self.module = ""

    def op(self, name, *inputs, shape=SHAPE, numbers=(), **named):
        self._count += 1
        op = Op(name, None, [*inputs, *numbers], named, self.module, self._count)
        op.inputs, op.outputs = list(inputs), [Value(torch.zeros(shape), op)]
        self.graph.events.append(op)
        return op.outputs[0]

    def linear(self, x, name, outputs=32):
        weight = Value(torch.zeros(x.shape[-1], outputs), parameter=f"{self.module}.{name}.weight")
        return self.op("mm", x, weight, shape=(*x.shape[:-1], outputs))

    def norm(self, x):
        return self.op("native_layer_norm", x, numbers=([32],))

    def attention(self, x):
        q, k, v = (self.linear(x, name) for name in ("q", "k", "v"))
        weights = self.op("_softmax", self.op("bmm", q, k, shape=(2, 3, 3)), shape=(2, 3, 3), dim=-1)
        return self.linear(self.op("bmm", weights, v), "proj")

    def feed_forward(self, x):
        return self.linear(self.op("relu", self.linear(x, "up", 128), shape=(2, 3, 128)), "down")


def pre_norm(w, x):
    x = w.op("add", x, w.attention(w.norm(x)))
    return w.op("add", x, w.feed_forward(w.norm(x)))


def post_norm(w, x):
    x = w.norm(w.op("add", x, w.attention(x)))
    return w.norm(w.op("add", x, w.feed_forward(x)))


def peri_norm(w, x):
    x = w.op("add", x, w.norm(w.attention(w.norm(x))))
    return w.op("add", x, w.norm(w.feed_forward(w.norm(x))))


def parallel(w, x):
    h = w.norm(x)
    return w.op("add", x, w.op("add", w.attention(h), w.feed_forward(h)))


def written_out(w, x):
    """RMSNorm as separate operators."""
    def norm(x):
        size = w.op("rsqrt", w.op("mean", w.op("pow", x), shape=(2, 3, 1)), shape=(2, 3, 1))
        return w.op("mul", x, size)

    x = w.op("add", x, w.attention(norm(x)))
    return w.op("add", x, w.feed_forward(norm(x)))


def without_sum(w, x):
    return w.feed_forward(w.norm(w.op("add", x, w.attention(w.norm(x)))))


def write_stack(w, path, layer, count, shape=SHAPE):
    """Writes layers in sequence, and a norm. Returns the layers and the norm's output."""
    elements = []
    x = Value(torch.zeros(shape))
    for i in range(count):
        w.module, module = f"{path}.{i}", Layer()
        elements.append(Element(w.module, module))
        w.graph.events.append(Enter(w.module, [x]))
        given, x = x, layer(w, x)
        w.graph.events.append(Leave(w.module, module, [given], [x]))
    w.module = ""
    return elements, w.norm(x)


def found(layer, count=3, shape=SHAPE):
    w = Writer()
    elements, output = write_stack(w, "layers", layer, count, shape)
    w.graph.outputs = [output]
    return find_streams(w.graph, elements, NAMED)


@pytest.mark.parametrize("layer, slots", [
    (pre_norm, ["before"]), (post_norm, ["after"]), (peri_norm, ["before", "inside"]), (written_out, ["before"])])
def test_finds_sublayers_and_the_places_of_their_norms(layer, slots):
    stream, = found(layer).streams
    assert [[(sub.kind, sub.layer, sub.module) for sub in subs] for subs in stream.layers] == [
        [("attention", i, f"layers.{i}"), ("feed_forward", i, f"layers.{i}")] for i in range(3)]
    for sub in (sub for subs in stream.layers for sub in subs):
        assert [slot for slot, _ in sub.norms()] == slots
        assert sub.sum.stream is not None and not sub.sum.is_mixed
    assert (stream.final_norm is not None) and stream.is_last


def test_the_joined_term_of_a_sum_stands_behind_dropout_and_before_the_branchs_end():
    """PyTorch's operator of dropout on a GPU; on a CPU, dropout consists of several operators."""
    def dropped(w, x):
        x = w.op("add", x, w.op("native_dropout", w.attention(w.norm(x)), numbers=(0.1, True)))
        return w.op("add", x, w.op("native_dropout", w.norm(w.feed_forward(w.norm(x))), numbers=(0.1, True)))

    result = found(dropped)
    assert not result.missed
    stream, = result.streams
    for attention, feed_forward in stream.layers:
        assert [[slot for slot, _ in sub.norms()] for sub in (attention, feed_forward)] == [
            ["before"], ["before", "inside"]]
        assert attention.joined.root.op.name == feed_forward.joined.root.op.name == "native_dropout"
        assert attention.sum.stream is not None and feed_forward.sum.stream is not None


@pytest.mark.parametrize("name", ["attn_mask", "attn_bias"])
def test_the_options_of_fused_attention(name):
    mask = Value(torch.zeros(3, 3))
    op = Op("_scaled_dot_product_attention", None, [], {name: mask, "is_causal": True, "scale": 0.5}, "", 1)
    found, is_causal, scale = fused_options(op)
    assert torch.equal(found, mask.tensor) and (is_causal, scale) == (True, 0.5)
    assert fused_options(Op("_scaled_dot_product_attention", None, [], {}, "", 1)) == (None, False, None)
    strange = {name: None, "scale": float("nan")}  # a kernel's own default
    assert fused_options(Op("_scaled_dot_product_attention", None, [], strange, "", 1)) == (None, False, None)


@pytest.mark.parametrize("made, divided, told", [
    (torch.float16, torch.float32, "float32"), (torch.float32, torch.float16, "float16"),
    (torch.bfloat16, None, "bfloat16")])
def test_coefficients_were_computed_in_the_type_of_their_last_normalization(made, divided, told):
    w = Writer()
    value = w.op("mm", Value(torch.zeros(SHAPE)))
    if divided is not None:
        value = w.op("_softmax", value)
        value.tensor = value.tensor.to(divided)
    value = w.op("mul", w.op("_to_copy", value))
    value.tensor = value.tensor.to(made)
    assert computed_in(Value(value.tensor.flatten(), alias_of=value)) == told


def test_the_final_norm_belongs_to_the_last_list_of_layers():
    class RMSNorm(nn.Module):  # its form of γ is measured
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

    model = nn.ModuleDict({name: nn.ModuleList([nn.ModuleDict({"norm": RMSNorm()})]) for name in ("vision", "text")})
    model["final"] = RMSNorm()
    site = Site(0, 0, "attention", "before", "normalized")
    entries = {site: {"gamma_offset": 0}, site._replace(layer=1): {"gamma_offset": 1},
               site._replace(layer=None): {"gamma_offset": 1}}
    measured = SimpleNamespace(layer_names={0: "vision.0", 1: "text.0"}, entries=entries,
                               slots=Counter([("norm", "attention", "before")]))
    stacks = Declared(model, [], {}, measured).stacks({"norm": "rms", "eps": None, "gamma_form": "other"})
    assert [(stack["first_layer"], stack["gamma_form"]) for stack in stacks] == [(0, "plain"), (1, "one_plus")]


class Block(nn.Module):
    def __init__(self, projections, has_attention, has_norm=True):
        super().__init__()
        self.norm = nn.LayerNorm(8) if has_norm else nn.Identity()
        self.attention = nn.Linear(8, 8) if has_attention else nn.Identity()
        for i in range(projections - has_attention):
            setattr(self, f"map{i}", nn.Linear(8, 8))
        if not has_attention:
            del self.attention


@pytest.mark.parametrize("block, is_found", [
    (Block(2, True), True), (Block(1, True), False), (Block(6, False), True), (Block(5, False), False),
    (Block(6, True, has_norm=False), False)])
def test_a_block_outside_of_a_list_has_a_norm_and_enough_maps_for_two_sublayers(block, is_found):
    model = nn.Module()
    model.outer = nn.Module()
    model.outer.once, model.outer.words = block, nn.Embedding(8, 8)
    assert [element.path for element in single_blocks(model)] == ["outer.once"] * is_found


class Attention(Block):
    pass


@pytest.mark.parametrize("name, module", [("attention", Block(6, False)), ("mixer", Attention(6, False))])
def test_an_attention_with_norms_is_no_block(name, module):
    model = nn.Module()
    model.outer = nn.Module()
    setattr(model.outer, name, module)
    assert [element.path for element in single_blocks(model)] == ["outer"]


def test_finds_branches_that_join_the_stream_in_one_sum():
    stream, = found(parallel).streams
    for subs in stream.layers:
        assert [sub.kind for sub in subs] == ["attention", "feed_forward"]
        assert subs[0].sum is subs[1].sum
        assert [len(sub.branch.linears) for sub in subs] == [4, 2]
        assert [len(sub.beside) for sub in subs] == [1, 1]


def test_finds_where_a_branch_takes_the_place_of_a_sum():
    stream, = found(without_sum).streams
    assert [[sub.sum.stream is not None for sub in subs] for subs in stream.layers] == [[True, False]] * 3


def test_finds_a_gate_between_stream_and_branch():
    def gated(w, x):
        f = w.attention(w.norm(x))
        gate = w.op("sigmoid", w.linear(f, "gate"))
        x = w.op("add", w.op("mul", gate, x), w.op("mul", w.op("rsub", gate), f))
        return w.op("add", x, w.feed_forward(w.norm(x)))

    stream, = found(gated).streams
    assert [[sub.sum.is_mixed for sub in subs] for subs in stream.layers] == [[True, False]] * 3


# -- Other ways to write a residual --


def beside_norm(w, x):
    h = w.norm(x)
    x = w.op("add", x, w.op("add", h, w.attention(h)))
    return w.op("add", x, w.feed_forward(w.norm(x)))


def test_a_stream_that_is_added_to_a_sum_with_its_norm_makes_one_sum_of_three_parts():
    stream, = found(beside_norm).streams
    for attention, _ in stream.layers:
        assert attention.sum.stream is attention.x is attention.before.input
        assert attention.total.root.op.inputs[0] is attention.x


def adapted(w, x):
    f = w.attention(w.norm(x))
    x = w.op("add", x, w.op("add", f, w.linear(w.linear(f, "adapter.down", 8), "adapter.up")))
    return w.op("add", x, w.feed_forward(w.norm(x)))


def test_a_branch_with_an_inner_residual_is_one_branch():
    stream, = found(adapted).streams
    assert [[(sub.kind, len(sub.branch.linears)) for sub in subs] for subs in stream.layers] == [
        [("attention", 6), ("feed_forward", 2)]] * 3
    assert all(attention.sum.stream is attention.x for attention, _ in stream.layers)


def convolved(w, x):
    c = w.op("convolution", x, Value(torch.zeros(32, 32, 3), parameter=f"{w.module}.local.weight"))
    return w.op("add", c, w.feed_forward(c))


def test_a_convolution_that_a_branch_reads_and_is_added_to_is_the_stream():
    stream, = found(convolved).streams
    for sub, in stream.layers:
        assert sub.sum.stream.op.name == "convolution"
        assert [linear.weight.split(".")[-2] for linear in sub.branch.linears] == ["up", "down"]


@pytest.mark.parametrize("share, is_projected", [(1, True), (0.97, True), (0.9, False)])
def test_a_branch_made_orthogonal_to_the_stream_is_still_a_branch(share, is_projected):
    def orthogonal(w, x):
        torch.manual_seed(0)
        x.tensor, f = torch.randn(SHAPE), w.attention(w.norm(x))
        f.tensor = torch.randn(SHAPE)
        along = w.op("mul", w.op("sum", w.op("mul", f, x), shape=(2, 3, 1)), x)
        factor = (f.tensor * x.tensor).sum(-1, keepdim=True) / x.tensor.square().sum(-1, keepdim=True)
        along.tensor = share * factor * x.tensor
        x = w.op("add", x, w.op("sub", f, along))
        return w.op("add", x, w.feed_forward(w.norm(x)))

    stream, = found(orthogonal).streams
    for attention, _ in stream.layers:
        assert attention.sum.is_mixed != is_projected
        assert (attention.output.root.op.name == "mm") == is_projected  # f itself, else the gated sum


def test_lanes_are_found_by_their_sums():
    def written_into_lanes(w, state):
        for branch in w.attention, w.feed_forward:
            row = w.op("sum", state)
            row.tensor = state.tensor.mean(2)
            f = branch(w.norm(row))
            f.tensor = torch.randn(SHAPE)
            written = w.op("mul", f, shape=state.shape)
            written.tensor = f.tensor.unsqueeze(2) * torch.tensor([1.0, 0.5, 2, -1])[:, None]
            total = w.op("add", state, written, shape=state.shape)
            total.tensor = state.tensor + written.tensor
            state = total
        return state

    torch.manual_seed(0)
    stream, = found(written_into_lanes, shape=(2, 3, 4, 32)).streams
    assert stream.flow.lanes == 4 and not stream.flow.lost
    assert [[sub.kind for sub in subs] for subs in stream.layers] == [["attention", "feed_forward"]] * 3
    for sub in (sub for subs in stream.layers for sub in subs):
        assert sub.sum.lanes.before.shape == sub.total.shape == (2, 3, 4, 32)
        assert sub.sum.branch.shape == SHAPE and not sub.sum.lanes.is_folded


def test_another_list_of_layers_that_reads_something_else_has_a_stream_of_its_own():
    w = Writer()
    encoder, _ = write_stack(w, "encoder", pre_norm, 2)
    decoder, output = write_stack(w, "decoder", pre_norm, 2)
    w.graph.outputs = [output]
    streams = find_streams(w.graph, encoder + decoder, NAMED).streams
    assert [[subs[0].layer for subs in stream.layers] for stream in streams] == [[0, 1], [2, 3]]
    assert [stream.embedding is not None for stream in streams] == [True, False]
    assert [stream.is_last for stream in streams] == [False, True]


def test_a_pass_without_layers_has_no_stream():
    assert not found(pre_norm, 0).streams


def test_an_error_of_the_search_names_its_layer_and_ends_nothing_else(monkeypatch):
    from addnorm.probe.find.flow import Flow
    take = Flow._take_op

    def fails(self, op):
        if op.module == "layers.1":
            raise ValueError("a strange operator")
        take(self, op)

    monkeypatch.setattr(Flow, "_take_op", fails)
    assert found(pre_norm).missed == {"layers.1": "ValueError: a strange operator"}
