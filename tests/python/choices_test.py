"""Sound models whose freezing, weight decay or initial weights are a choice, each with the most similar fault."""

import types

import pytest

torch = pytest.importorskip("torch")
import addnorm  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)  # more threads only slow down such small models
WIDTH, WORDS, LAYERS = 32, 50, 6


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH)) for _ in range(4))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[..., k:k + 1] * expert(x) for k, expert in enumerate(self.experts))


class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, 4, bias=False)
        self.lora_B = nn.Linear(4, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))


class Layer(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.attn = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, hidden), nn.GELU(), nn.Linear(hidden, WIDTH))
        self.A_log = nn.Parameter(0.1 * torch.randn(WIDTH, 4))

    def forward(self, x):
        h = self.norm_1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.norm_3(self.mlp(self.norm_2(x)) * self.A_log.mean(1).exp())


class Model(nn.Module):
    def __init__(self, hidden=(256,) * LAYERS):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleList(map(Layer, hidden))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class WithOwnCode(Model):
    """A model whose own code draws queries, keys and values in another size than the configuration says."""

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, Layer):
            nn.init.normal_(module.mlp[0].weight, std=0.1)


class WithZeros(WithOwnCode):
    """A model whose maps into the stream begin at 0."""

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, Layer):
            nn.init.zeros_(module.mlp[-1].weight)


def small(**options):
    """A model with initial weights of the configuration's size."""
    found = Model(**options)
    found.config = types.SimpleNamespace(initializer_range=0.02, hidden_size=WIDTH)
    for module in found.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(getattr(module, "bias", None), nn.Parameter):
            nn.init.zeros_(module.bias)
    for layer in found.layers:
        nn.init.zeros_(layer.attn.in_proj_bias)
    return found


def own_code(kind=WithOwnCode):
    found = kind()
    found.config = types.SimpleNamespace(initializer_range=0.02, hidden_size=WIDTH)
    found.apply(found._init_weights)
    for layer in found.layers:
        nn.init.zeros_(layer.attn.in_proj_bias)
    return found


def test_matrices_that_began_at_0_and_were_trained_have_any_size():
    found = own_code(WithZeros)
    for layer in found.layers:
        nn.init.normal_(layer.mlp[-1].weight, std=0.05)
    assert "initial-size" not in rules(found)


def in_layers(change, layers=range(LAYERS), make=Model, **options):
    """Returns a function that makes a model with a change in some layers."""
    def plant():
        found = make(**options)
        with torch.no_grad():
            for i in layers:
                change(found.layers[i], i)
        return found
    return plant


def freeze(*names):
    def change(layer, index):
        for name, parameter in layer.named_parameters():
            if any(name.startswith(start) for start in names):
                parameter.requires_grad_(False)
    return change


def train_experts(layer, index):
    layer.mlp = Experts()
    chosen = ((0, 2), (1, 3), (0, 3), (2,), (1,), (0, 2))[index]
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(any(f"experts.{k}." in name for k in chosen))


def offset(layer, index):
    """Sets β to 0.5 and γ to 1, with noise as after a training step."""
    for value, start in (layer.norm_2.bias, 0.5), (layer.norm_2.weight, 1.0):
        value.copy_(start + 0.01 * torch.randn(WIDTH))


def tokens_of(std):
    def make():
        found = small()
        nn.init.normal_(found.embedding.weight, std=std)
        return found
    return make


def scale(find, factor):
    return lambda layer, index: find(layer).mul_(factor)


def of_mlp(layer):
    return layer.mlp[0].weight


def add_lora(layer, index):
    layer.mlp[0], layer.mlp[2] = LoRA(layer.mlp[0]), LoRA(layer.mlp[2])


CASES = {  # the rule, the sound model, and its faulty twin
    "attention is frozen": ("parameter-frozen", in_layers(freeze("attn")), in_layers(freeze("attn.in_proj"))),
    "chosen experts are trained": ("parameter-frozen", in_layers(train_experts), in_layers(freeze("mlp.0"), [2])),
    "layers drawn at random are trained": (
        "parameter-frozen", in_layers(freeze(""), [0, 2, 3, 5]), in_layers(freeze(""), [2])),
    "γ of all layers is small": (
        "initial-size", in_layers(scale(lambda layer: layer.norm_3.weight, 0.2), make=small),
        in_layers(scale(lambda layer: layer.norm_3.weight, 0.2), [2], make=small)),
    "tokens are pretrained": ("initial-size", tokens_of(0.4), in_layers(scale(of_mlp, 5), [2], make=small)),
    "LoRA": ("initial-size", in_layers(add_lora, make=small), in_layers(scale(of_mlp, 5), [2], make=small)),
    "the model's own code": ("initial-size", own_code, in_layers(scale(of_mlp, 5), make=own_code)),
    "β that begins at 0.5": ("bias-off-zero", in_layers(offset), in_layers(offset, [2])),
    "one wide layer": ("size-odd", lambda: Model((256, 256, 256, 1024, 256, 256)), in_layers(scale(of_mlp, 4), [3])),
}


def rules(found, **options):
    tokens = torch.randint(WORDS, (3, 10), generator=torch.Generator().manual_seed(1))
    return [f.rule for f in addnorm.check(found, tokens, **options).findings if f.severity != "note"]


@pytest.mark.parametrize("name", CASES)
def test_a_choice_is_not_accused_and_its_twin_is(name):
    rule, sound, faulty = CASES[name]
    torch.manual_seed(0)
    assert rules(sound()) == []
    assert rules(faulty()) == [rule]


@pytest.mark.parametrize("without, is_wrong", [("A_log", False), ("mlp.0", True), ("layers.2.attn", True)])
def test_only_linear_maps_need_one_weight_decay(without, is_wrong):
    found = Model()
    groups = {}
    for name, parameter in found.named_parameters():
        has_none = parameter.dim() < 2 or without in name
        groups.setdefault(0.0 if has_none else 0.1, []).append(parameter)
    optimizer = torch.optim.AdamW([{"params": p, "weight_decay": decay} for decay, p in groups.items()], lr=1e-4)
    assert rules(found, optimizer=optimizer) == ["decay-uneven"] * is_wrong


class DecoderLayer(nn.TransformerDecoderLayer):
    def forward(self, x, places, image):
        h = x + places
        x = self.norm1(x + self.self_attn(h, h, x, need_weights=False)[0])
        x = self.norm2(x + self.multihead_attn(x + places, image, image, need_weights=False)[0])
        return self.norm3(x + self.linear2(self.linear1(x).relu()))


class Decoder(nn.Module):
    """A decoder whose stream begins at 0, as in DETR."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(7, WIDTH))
        self.layers = nn.ModuleList(DecoderLayer(WIDTH, 2, 64, 0.0, batch_first=True) for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, image):
        x, places = torch.zeros(len(image), 7, WIDTH), self.queries.expand(len(image), -1, -1)
        for layer in self.layers:
            x = layer(x, places, image)
        return self.head(x)


def test_a_decoder_that_begins_with_zeros_has_no_lost_gradients():
    torch.manual_seed(0)
    found = addnorm.check(Decoder(), torch.randn(2, 9, WIDTH)).findings
    assert "gradient-zero" not in {f.rule for f in found}


@pytest.mark.parametrize("entries, is_wrong", [
    ({}, True), ({"num_experts_per_tok": 1, "norm_topk_prob": True}, False), ({"moe_topk": [1, 1]}, False),
    ({"num_experts_per_tok": 1, "norm_topk_prob": False}, True), ({"num_experts_per_tok": 2}, True)])
def test_a_router_of_one_expert_divides_its_weight_by_itself_only_if_it_says_so(entries, is_wrong):
    def route(layer, index):
        layer.mlp = Experts()
        layer.mlp.forward = types.MethodType(
            lambda s, x: (lambda top: top / top * s.experts[0](x))(s.gate(x).softmax(-1).amax(-1, keepdim=True)),
            layer.mlp)
    torch.manual_seed(0)
    found = in_layers(route)()
    found.config = types.SimpleNamespace(num_experts=4, **entries)
    assert ("gradient-zero" in rules(found)) == is_wrong


def test_convolutions_with_frozen_statistics_are_no_layers():
    transformers = pytest.importorskip("transformers")
    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
                                         layer_type="basic", out_features=["stage4"])
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone=None, backbone_config=backbone, use_pretrained_backbone=False, d_model=WIDTH,
        encoder_layers=2, decoder_layers=3, encoder_ffn_dim=64, decoder_ffn_dim=64, encoder_attention_heads=4,
        decoder_attention_heads=4, num_queries=7, num_labels=5)
    torch.manual_seed(0)
    found = addnorm.check(transformers.DetrForObjectDetection(config).eval(),
                          {"pixel_values": torch.randn(2, 3, 96, 128)}).findings
    assert not [f for f in found if f.severity == "broken" or f.rule == "gradient-zero"]
