#!/usr/bin/env python3
"""Writes lanes/*.json, the expected values of tests/lanes_golden_test.cc, from public implementations.

 generate_lanes.py FOLDER

FOLDER holds checkouts of their repositories, each in a folder with the repository's name. Needs PyTorch 2.4 or
newer, and einops, which the files import. Their code is not copied here: it runs unchanged. Where an implementation
fixes a type or an epsilon, it gets float64 and our epsilon. For arrangements without a runnable implementation,
`written_out` has the equations.

A file holds one case: the input lanes x, all parameters with our names and layout, the output y, a random gradient dy
of it, and all resulting gradients. If the implementation has initial values of parameters, the file has them too.
Parameters are created in our layout and theirs are computed from them, so that the gradients are in our layout.
Sublayer s, from 0, is

 f_c = (0.5 + 0.1·c)·tanh(h_{c - s - 1}), with h extended cyclically

If it reads several mixes, h is the first plus twice the second plus three times the third.
"""

import contextlib
import functools
import importlib.util
import json
import math
import pathlib
import sys
import types
import zlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

OUT = pathlib.Path(__file__).parent / "lanes"
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
EPS = 1e-6  # ε of every norm


# ---- Cases -----------------------------------------------------------------------------------


class Case:
    """One placement between its input and its output. `x` has lanes × rows × features."""

    def __init__(self, name, source, *, placement=None, layers=1, lanes=1, inputs=None, d_model=6,
                 norm="rms"):
        torch.manual_seed(zlib.crc32(name.encode()))
        self.name, self.source, self.norm_kind = name, source, norm
        self.placement = placement or name
        self.layers, self.lanes, self.d_model, self.rows = layers, lanes, d_model, 3
        self.values, self.initial = {}, {}
        self.x = self.numbers(inputs or lanes, self.rows, d_model)

    def numbers(self, *shape, mean=0.0, deviation=1.0):
        """Random numbers with few decimals."""
        values = torch.randn(shape) * deviation + mean
        return torch.tensor([round(v, 2) for v in values.flatten().tolist()]).reshape(
            shape).requires_grad_()

    def parameter(self, name, *shape, mean=0.0, deviation=0.5):
        """Returns one of our parameters, which is created at its first use."""
        if name not in self.values:
            self.values[name] = self.numbers(*shape, mean=mean, deviation=deviation)
        return self.values[name]

    def norm(self, name, x):
        """Computes the norm of one of our slots."""
        gamma = self.parameter(f"{name}.gamma", x.shape[-1], mean=1, deviation=0.3)
        if self.norm_kind == "rms":
            return gamma * F.rms_norm(x, (x.shape[-1],), eps=EPS)
        beta = self.parameter(f"{name}.beta", x.shape[-1])
        return F.layer_norm(x, (x.shape[-1],), gamma, beta, EPS)

    def layer_norm(self, name):
        """Returns the same norm as a module."""
        return Call(functools.partial(self.norm, name))

    def site(self, s):
        return f"layers.{s // 2}.{('attention', 'feed_forward')[s % 2]}_add_norm"

    @property
    def sites(self):
        return range(2 * self.layers)

    def branch(self, s, h):
        factors = 0.5 + 0.1 * torch.arange(h.shape[-1])
        return factors * torch.tanh(torch.roll(h, s + 1, -1))

    def pre_norm_branch(self, s, z):
        return self.branch(s, self.norm(f"{self.site(s)}.before", z))

    def mix(self, name, to, source_from, **what):
        """Returns a learned base of shape to × from."""
        return self.parameter(f"{name}.base", to * source_from, **what).view(to, source_from)

    def save(self, y):
        y = y.reshape(self.rows, self.d_model)
        dy = self.numbers(self.rows, self.d_model)
        y.backward(dy.detach())
        text = {
            "source": self.source, "placement": self.placement, "norm": self.norm_kind,
            "layers": self.layers, "lanes": self.lanes, "rows": self.rows, "d_model": self.d_model,
            "x": [listed(lane) for lane in self.x], "y": listed(y), "dy": listed(dy),
            "dx": [listed(lane) for lane in self.x.grad],
            "values": {name: listed(v) for name, v in self.values.items()},
            "gradients": {name: listed(v.grad) for name, v in self.values.items()},
            "initial": {name: listed(v) for name, v in self.initial.items()},
        }
        rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in text.items())
        (OUT / f"{self.name}.json").write_text("{" + ",\n".join(rows) + "}\n")


def listed(tensor):
    return [float(f"{v:.13g}") for v in tensor.detach().flatten().tolist()]


class Call(nn.Module):
    """Wraps a function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


# ---- Running public implementations --------------------------------------------------------------


def load(path, **stubs):
    """Loads the file as a module. `stubs` are modules that it imports, with the names that it uses."""
    for name, members in stubs.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
    name = path.replace("/", "_").removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, FOLDER / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def replace(module, **members):
    """Replaces parameters and submodules by tensors or functions."""
    for name, member in members.items():
        delattr(module, name)
        setattr(module, name, member if isinstance(member, torch.Tensor) else Call(member))


@contextlib.contextmanager
def float64():
    """Turns casts to narrower types into casts to float64."""
    kept = torch.Tensor.float, torch.Tensor.bfloat16, torch.float
    torch.Tensor.float = torch.Tensor.bfloat16 = torch.Tensor.double
    torch.float = torch.float64
    yield
    torch.Tensor.float, torch.Tensor.bfloat16, torch.float = kept


def given_gamma(features):
    """Returns a γ for a norm whose output is only multiplied by weights. Our weights are γ times theirs."""
    return 0.7 + 0.6 * torch.rand(features)


# ---- mHC: deepseek-ai/TileKernels, tile_kernels/torch/mhc.py ---------------------------------
# Their weights, bases and scales are those of read, write and carry, concatenated. Their
# comb[from, to] is our A(to, from).


def tile_mixes(tile, case, name, x, write=True, carry=True):
    """The coefficients of read, write and carry computed from x: 1 × rows × lanes × features."""
    n, features = case.lanes, case.lanes * case.d_model
    numbers = {"read": n, "write": n * write, "carry": n * n * carry}
    bases, scales, weights = [], [], []
    for mix, count in numbers.items():
        if count == 0:
            bases.append(torch.zeros(n * n if mix == "carry" else n))
            weights.append(torch.zeros(len(bases[-1]), features))
            scales.append(torch.zeros(1))
            continue
        base = case.parameter(f"{name}.{mix}.base", count, deviation=1)
        scales.append(case.parameter(f"{name}.{mix}.scale", 1, mean=1, deviation=0.2))
        weight = case.parameter(f"{name}.{mix}.weight", count, features)
        if mix == "carry":
            base = base.view(n, n).T.reshape(-1)
            weight = weight.view(n, n, features).transpose(0, 1).reshape(n * n, features)
        bases.append(base)
        weights.append(weight)
    gamma = given_gamma(features)
    mixes = tile.mhc_pre_norm_fn_ref(x, torch.cat(weights) / gamma, gamma, EPS)
    return tile.mhc_pre_split_mixes_ref(mixes, torch.cat(scales), torch.cat(bases), n, 2.0, EPS)


def tile_exit(tile, case, x):
    n, name = case.lanes, "exit.read"
    weight = case.parameter(f"{name}.weight", n, n * case.d_model)
    mix = tile.mhc_head_compute_mix_ref(
        tile.mhc_pre_norm_fn_ref(x, weight, None, EPS),
        case.parameter(f"{name}.scale", 1, mean=1, deviation=0.2),
        case.parameter(f"{name}.base", n, deviation=1), EPS)
    return case.norm("final_norm", tile.mhc_pre_apply_mix_ref(x, mix.unsqueeze(-1)))


def start_of_mhc(case):
    """Sets the initial values of FFTYYY/mhc-lite, hyper_conn/mhc.py; TileKernels has none."""
    mhc = load("mhc-lite/hyper_conn/mhc.py")
    for s in case.sites:
        site = case.site(s)
        theirs = mhc.ManifoldConstrainedHyperConnections(case.lanes, dim=case.d_model,
                                                         layer_index=s)
        case.initial |= {f"{site}.read.base": theirs.static_alpha[:, 0],
                         f"{site}.read.scale": theirs.pre_branch_scale,
                         f"{site}.carry.base": theirs.static_alpha[:, 1:].T,
                         f"{site}.carry.scale": theirs.residual_scale,
                         f"{site}.write.base": theirs.static_beta,
                         f"{site}.write.scale": theirs.h_post_scale}


def of_tile_kernels():
    path = "tile_kernels/torch/mhc.py"
    tile = load(f"TileKernels/{path}")

    def case(name, lanes, *, identity=False, lags=False):
        of = Case(name, f"deepseek-ai/TileKernels {path}", lanes=lanes, layers=1 + lags)
        if name == "mhc":
            start_of_mhc(of)
        with float64():
            x = of.x.transpose(0, 1).unsqueeze(0)
            before = None
            for s in of.sites:
                site = of.site(s)
                pre, post, comb = tile_mixes(tile, of, site, x, carry=not identity)
                if lags and before is None:  # the first sublayer reads the first lane
                    pre = F.one_hot(torch.tensor(0), lanes).double().view(1, 1, lanes, 1)
                    for kind in "base", "scale", "weight":
                        del of.values[f"{site}.read.{kind}"]
                elif lags:
                    pre = tile_mixes(tile, of, site, before)[0]
                comb = torch.eye(lanes).expand_as(comb) if identity else \
                    tile.sinkhorn_normalize_ref(comb, 20, EPS)
                f = of.pre_norm_branch(s, tile.mhc_pre_apply_mix_ref(x, pre))
                before, x = x, tile.mhc_post_ref(f, x, post, comb)
            of.save(tile_exit(tile, of, x))

    case("mhc", 4)
    case("identity-hc", 3, identity=True)
    case("single-pass-mhc", 2, lags=True)
    return tile


# ---- Hyper-connections: lucidrains/hyper-connections, hyper_connections/hyper_connections.py -


def of_hyper_connections():
    path = "hyper_connections/hyper_connections.py"
    lucid = load(f"hyper-connections/{path}")
    source = f"lucidrains/hyper-connections {path}"

    # Their alpha[from, 0] is our a(from), alpha[from, 1 + to] our A(to, from).
    def lanes(name, n, dynamic):
        case = Case(name, source, lanes=n, layers=1 + (not dynamic))
        x, d = case.x, case.d_model
        for s in case.sites:
            site = case.site(s)
            theirs = lucid.HyperConnections(n, dim=d, layer_index=s,
                                            branch=Call(functools.partial(case.pre_norm_branch, s)))
            case.initial |= {f"{site}.read.base": theirs.static_alpha[:, 0],
                             f"{site}.carry.base": theirs.static_alpha[:, 1:].T,
                             f"{site}.write.base": theirs.static_beta}
            theirs.norm = nn.RMSNorm(d, eps=EPS)
            gamma = given_gamma(d)
            weights, scales = {}, {}
            for mix, rows in {"read": 1, "carry": n, "write": 1}.items():
                weights[mix], scales[mix] = torch.zeros(rows, d), torch.zeros(1)
                if dynamic:
                    weights[mix] = case.parameter(f"{site}.{mix}.weight", rows, d)
                    scales[mix] = case.parameter(f"{site}.{mix}.scale", 1, mean=1, deviation=0.2)
                    name_of_scale = "beta" if mix == "write" else "alpha"
                    case.initial[f"{site}.{mix}.scale"] = getattr(
                        theirs, f"dynamic_{name_of_scale}_scale")
            x = functional_call(theirs, {
                "norm.weight": gamma,
                "static_alpha": torch.cat([case.mix(f"{site}.read", n, 1),
                                           case.mix(f"{site}.carry", n, n).T], 1),
                "static_beta": case.mix(f"{site}.write", n, 1)[:, 0],
                "dynamic_alpha_fn": torch.cat([weights["read"], weights["carry"]]).T /
                                    gamma[:, None],
                "dynamic_alpha_scale": torch.cat([scales["read"], scales["carry"].expand(n)]),
                "dynamic_beta_fn": weights["write"][0] / gamma,
                "dynamic_beta_scale": scales["write"][0],
            }, (x,))
        case.save(case.norm("final_norm", x.sum(0)))

    # Their alpha[from, 2·to] is our a(to, from), alpha[from, 2·to + 1] our A(to, from). They learn only the part of b
    # that depends on the target; the same code accepts all of b.
    def fractions(m):
        case = Case("frac", source, lanes=m, inputs=1, layers=2, d_model=2 * m)
        x = case.x
        for s in case.sites:
            site = case.site(s)
            theirs = lucid.HyperConnections(1, dim=2 * m, num_fracs=m, layer_index=s,
                                            branch=Call(functools.partial(case.pre_norm_branch, s)))
            read, carry, write = (case.mix(f"{site}.{mix}", m, m)
                                  for mix in ("read", "carry", "write"))
            x = functional_call(theirs, {
                "static_alpha": torch.stack([read.T, carry.T], -1).reshape(m, 2 * m),
                "static_beta": write.T}, (x,))
        case.save(case.norm("final_norm", x))

    lanes("hyper", 3, dynamic=False)
    lanes("dynamic-hyper", 3, dynamic=True)
    fractions(4)


# ---- mHC-lite: FFTYYY/mhc-lite, hyper_conn/mhc_lite.py ---------------------------------------
# Their permutation matrices are P[from, to], ours P[to, from]: a permutation has the weight of its inverse. Their σ
# adds no constant; ours adds that of DeepSeek-V4.


def of_mhc_lite(tile):
    path, n = "hyper_conn/mhc_lite.py", 3
    lite = load(f"mhc-lite/{path}")
    matrices = lite.get_all_permutations(n).double()
    lite.perm_mats[n, "cpu"] = matrices
    inverse = [next(i for i, other in enumerate(matrices) if other.equal(matrix.T))
               for matrix in matrices]
    case = Case("mhc-lite", f"FFTYYY/mhc-lite {path}", lanes=n)
    x, features = case.x, n * case.d_model
    for s in case.sites:
        site = case.site(s)
        read_too = EPS * x.sum(0)
        theirs = lite.MHCLite(n, dim=case.d_model, layer_index=s, branch=Call(
            lambda z, s=s, more=read_too: case.pre_norm_branch(s, z + more)))
        case.initial |= {f"{site}.read.base": theirs.static_alpha[:n],
                         f"{site}.read.scale": theirs.pre_branch_scale,
                         f"{site}.carry.base": theirs.static_alpha[n:],
                         f"{site}.carry.scale": theirs.residual_scale,
                         f"{site}.write.base": theirs.static_beta,
                         f"{site}.write.scale": theirs.h_post_scale}
        theirs.norm = nn.RMSNorm(features, eps=EPS)
        gamma = given_gamma(features)
        base, scale, weight = {}, {}, {}
        for mix, count in {"read": n, "carry": len(matrices), "write": n}.items():
            base[mix] = case.parameter(f"{site}.{mix}.base", count, deviation=1)
            scale[mix] = case.parameter(f"{site}.{mix}.scale", 1, mean=1, deviation=0.2)
            weight[mix] = case.parameter(f"{site}.{mix}.weight", count, features)
        x = functional_call(theirs, {
            "norm.weight": gamma,
            "static_alpha": torch.cat([base["read"], base["carry"][inverse]]),
            "dynamic_alpha_fn": torch.cat([weight["read"], weight["carry"][inverse]]).T /
                                gamma[:, None],
            "pre_branch_scale": scale["read"],
            "residual_scale": scale["carry"],
            "static_beta": base["write"],
            "dynamic_beta_fn": weight["write"].T / gamma[:, None],
            "h_post_scale": scale["write"][0],
        }, (x,))
    with float64():
        case.save(tile_exit(tile, case, x.transpose(0, 1).unsqueeze(0)))


# ---- Memory over depth -----------------------------------------------------------------------


def of_attention_residuals():
    path = "fla/ops/attnres/naive.py"
    naive = load(f"flash-linear-attention/{path}").naive_attnres

    def mix(case, name, sources):
        weight = case.parameter(f"{name}.read.weight", 1, case.d_model)[0]
        gamma = given_gamma(case.d_model)
        return naive(weight / gamma, sources, gamma, rms_eps=EPS)

    def case(name, layers, sites_of_block):
        of = Case(name, f"fla-org/flash-linear-attention {path}", layers=layers)
        blocks, partial = [of.x[0]], None  # the embedding and complete blocks; the sum of the last block
        with float64():
            for s in of.sites:
                if s % sites_of_block == 0 and s > 0:
                    blocks, partial = [*blocks, partial], None
                sources = blocks if partial is None else [*blocks, partial]
                f = of.pre_norm_branch(s, mix(of, of.site(s), sources))
                partial = f if partial is None else partial + f
            of.save(of.norm("final_norm", mix(of, "exit", [*blocks, partial])))

    case("attention-residuals", 2, 1)
    case("block-attention-residuals", 12, 4)


def of_dense_former():
    path = "denseformer/denseformer.py"
    case = Case("dense-former", f"epfml/DenseFormer {path}", layers=3)
    theirs = load(f"DenseFormer/{path}").DWAModules(case.layers)
    x = case.x[0]
    theirs.init_accumulators(x)
    for i in range(case.layers):
        for s in 2 * i, 2 * i + 1:
            x = x + case.pre_norm_branch(s, x)
        last = i + 1 == case.layers
        name = "exit.read.base" if last else f"{case.site(2 * i + 2)}.carry.base"
        average = theirs.alphas[i]
        case.initial[name] = average.weight.detach().clone()
        del average.weight
        average.weight = case.parameter(name, i + 2)
        x = theirs(x, i)
    case.save(case.norm("final_norm", x))


def of_mudd():
    path = "pytorch/muddformer/modeling_muddformer.py"
    mudd = load(f"MUDDFormer/{path}", **{
        "configuration_muddformer": {"MUDDFormerConfig": None},
        "transformers": {},
        "transformers.modeling_utils": {"PreTrainedModel": nn.Module}})
    case = Case("mudd", f"Caiyun-AI/MUDDFormer {path}, and its start in jax/MaxText", layers=3)
    config = types.SimpleNamespace(dim=case.d_model, norm_eps=EPS, dense_type="qkvr",
                                   expand_last=False, round64=False)
    kept, reads = [case.x[:1]], [case.x[:1]] * 4
    for i in range(case.layers):
        site = case.site(2 * i)
        *vkq, residual = reads
        if i == 0:  # they have one norm, from whose output attention computes queries, keys and values
            h = case.norm(f"{site}.before", residual)
        else:
            h = sum((k + 1) * case.norm(f"{site}.before.{k}", z) for k, z in enumerate(vkq))
        x = residual + case.branch(2 * i, h)
        x = x + case.pre_norm_branch(2 * i + 1, x)
        kept.append(x)
        n, last = i + 2, i + 1 == case.layers
        name = "exit" if last else case.site(2 * i + 2)
        rows = {f"{name}.read": 1} if last else {f"{name}.read": 3, f"{name}.carry": 1}
        units = n * sum(rows.values())
        # Their order is queries, keys, values and the residual; ours has values first.
        order = [0] if last else [2, 1, 0, 3]
        theirs = mudd.MultiwayDynamicDenseBlock(config, i, last_layer=last)
        numbers = functional_call(theirs, {
            "w1.weight": case.parameter(f"{name}.hidden", units, case.d_model),
            "w2.weight": torch.cat([case.parameter(f"{mix}.weight", to * n, units)
                                    for mix, to in rows.items()]).view(-1, n, units)[order]
                              .flatten(0, 1)}, (x,))
        static = torch.cat([case.mix(mix, to, n) for mix, to in rows.items()])[order]
        made = theirs.layer_mix(kept, numbers + static[:, None, None])
        reads = [made[k] for k in order]
        for mix, to in rows.items():
            case.initial |= {f"{mix}.weight": torch.zeros(to * n, units),
                             f"{mix}.base": torch.eye(n)[-1].repeat(to)}
    case.save(case.norm("final_norm", reads[0]))


# ---- nanochat/gpt.py of karpathy/nanochat: x0 and backout ------------------------------------


def of_nanochat():
    path = "nanochat/gpt.py"
    gpt = load(f"nanochat/{path}", **{
        "nanochat": {},
        "nanochat.common": {"get_dist_info": None, "print0": print, "COMPUTE_DTYPE": torch.float64},
        "nanochat.optim": {"MuonAdamW": None},
        "nanochat.flash_attention": {"flash_attn": None}})

    def case(name, layers):
        of = Case(name, f"karpathy/nanochat {path}", layers=layers, lanes=2, inputs=1)
        embedding = of.x
        # Omits their norm of the embedding, which our placements do not have.
        gpt.norm = lambda x: x if x is embedding else F.rms_norm(x, (of.d_model,), eps=EPS)
        seen = []

        def gamma_of(name):
            return of.parameter(f"{name}.gamma", of.d_model, mean=1, deviation=0.3)

        def sublayer(s, h, *_):
            return of.branch(s, gamma_of(f"{of.site(s)}.before") * h)

        blocks = []
        for i in range(layers):
            block = gpt.Block.__new__(gpt.Block)
            nn.Module.__init__(block)
            block.attn = Call(functools.partial(sublayer, 2 * i))
            block.mlp = Call(functools.partial(sublayer, 2 * i + 1))
            blocks.append(block)
        resid, again, backout = torch.ones(layers), torch.zeros(layers), torch.zeros(1)
        if name == "x0":
            both = [of.parameter(f"{of.site(2 * i)}.carry.base", 2, mean=0.7)
                    for i in range(layers)]
            resid, again = torch.stack(both).unbind(1)
            start = gpt.GPT(gpt.GPTConfig(n_layer=layers, n_head=2, n_kv_head=2, n_embd=24,
                                          sequence_len=4, vocab_size=8))
            start.init_weights()
            for i in range(layers):
                of.initial[f"{of.site(2 * i)}.carry.base"] = torch.stack(
                    [start.resid_lambdas[i], start.x0_lambdas[i]])
        else:
            backout = -of.parameter("exit.read.base", 1)
        model = types.SimpleNamespace(
            cos=torch.zeros(1, of.rows, 1), sin=torch.zeros(1, of.rows, 1),
            transformer=types.SimpleNamespace(wte=lambda _: embedding, h=blocks),
            smear_lambda=torch.zeros(1), smear_gate=lambda x: x[..., :1], value_embeds={},
            window_sizes=[None] * layers, resid_lambdas=resid, x0_lambdas=again,
            backout_lambda=backout, lm_head=lambda y: seen.append(y) or y,
            config=types.SimpleNamespace(n_layer=layers, vocab_size=of.d_model))
        gpt.GPT.forward(model, torch.zeros(1, of.rows, dtype=torch.long))
        of.save(gamma_of("final_norm") * seen[0])

    case("x0", 3)
    case("backout", 4)  # both save after the third of four layers


# ---- Others ----------------------------------------------------------------------------------


def of_residual_dual():
    path = "resi_dual/resi_dual_layers.py"
    base = {name: nn.Module for name in ("TransformerEncoderLayerBase",
                                         "TransformerDecoderLayerBase")}
    layers = load(f"ResiDual/{path}", **{"fairseq": {}, "fairseq.modules": {},
                                         "fairseq.modules.transformer_layer": base})
    case = Case("residual-dual", f"microsoft/ResiDual {path}", layers=2, lanes=2, inputs=1,
                norm="layer")
    data = case.x[0], case.x[0]
    for i in range(case.layers):
        layer = layers.ResiDualEncoderLayer.__new__(layers.ResiDualEncoderLayer)
        nn.Module.__init__(layer)
        layer.cfg = types.SimpleNamespace(enc_res_input_norm_scale=1.0)
        layer.return_fc = False
        layer.self_attn = Call(lambda query, i=i, **_: (case.branch(2 * i, query), None))
        layer.fc1 = Call(functools.partial(case.branch, 2 * i + 1))
        layer.activation_fn = layer.fc2 = layer.dropout_module = nn.Identity()
        layer.activation_dropout_module = nn.Identity()
        layer.self_attn_layer_norm = case.layer_norm(f"{case.site(2 * i)}.after")
        layer.final_layer_norm = case.layer_norm(f"{case.site(2 * i + 1)}.after")
        data = layer(data, None)
    case.save(data[0] + case.norm("exit.last_lane", data[1]))


def of_orthogonal():
    """Covers rows of zeros, small rows, where ε matters, and ordinary rows."""
    path = "connect.py"
    orthogonal = load(f"ortho-residual/{path}")._orthogonal_channel
    case = Case("orthogonal", f"BootsofLagrangian/ortho-residual {path}", layers=2)
    with torch.no_grad():
        case.x[0, 0] = 0
        case.x[0, 1] *= 1e-3
    x = case.x[0]
    with float64():
        for s in case.sites:
            x = x + orthogonal(x, case.pre_norm_branch(s, x), -1, torch.tensor([1e-6]))[0]
    case.save(case.norm("final_norm", x))


def of_ngpt():
    """The block of nGPT with our sublayers. It learns alpha in another unit. Some are negative
    here, because it uses |alpha|."""
    read = []

    def sublayer(s, _):
        return case.branch(s, read[-1])

    def reads(width):
        return lambda h: read.append(h) or torch.cat([h] * width, -1)

    ngpt = load("ngpt/model.py", flash_attn={"flash_attn_qkvpacked_func": None,
                                             "flash_attn_func": lambda q, *_, **__: q})
    case = Case("ngpt", "NVIDIA/ngpt model.py", layers=2)
    config = types.SimpleNamespace(n_embd=case.d_model, n_head=1, bias=False, use_nGPT=1,
                                   base_scale=case.d_model ** -0.5)
    x = case.x / case.x.norm(dim=-1, keepdim=True)  # normalized like their embeddings
    for i in range(case.layers):
        block = ngpt.Block(config, i)
        alphas = {}
        for s, name in (2 * i, "attn_alpha"), (2 * i + 1, "mlp_alpha"):
            gain = case.parameter(f"{case.site(s)}.gain", case.d_model, mean=0.1, deviation=0.3)
            scaling = getattr(block, f"{name}_init_scaling")
            start = getattr(block, f"{name}_init_value")
            alphas[name] = gain * scaling / start
            case.initial[f"{case.site(s)}.gain"] = start * torch.ones(case.d_model)
        replace(block, **alphas, query=reads(1), key=reads(1), value=reads(1), c_fc=reads(8),
                att_c_proj=functools.partial(sublayer, 2 * i),
                mlp_c_proj=functools.partial(sublayer, 2 * i + 1))
        x = block(x)
    case.save(x)


def written_out():
    """Equations of papers, and of code that cannot run separately."""
    def case(name, what, **sizes):
        return Case(name, f"the equation of {what}", **sizes)

    of = case("highway", "Srivastava et al. 2015", layers=2)
    x = of.x[0]
    for s in of.sites:
        weight = of.parameter(f"{of.site(s)}.gate.weight", of.d_model, of.d_model)
        gate = torch.sigmoid(F.linear(x, weight, of.parameter(f"{of.site(s)}.gate.bias",
                                                              of.d_model)))
        x = gate * of.branch(s, x) + (1 - gate) * x
    of.save(x)

    of = case("completep", "Dey et al. 2025, of a base depth of 2", layers=3)
    x = of.x[0]
    for s in of.sites:
        x = x + of.layers**-1 * 2 * of.pre_norm_branch(s, x)
    of.save(of.norm("final_norm", x))

    of = case("depth-scaled-sandwich", "Yin et al. 2025", layers=2)
    x = of.x[0]
    for s in of.sites:
        name = f"{of.site(s)}.inside"
        x = x + of.norm(name, of.pre_norm_branch(s, x))
        of.initial[f"{name}.gamma"] = torch.full([of.d_model], len(of.sites) ** -0.5)
    of.save(of.norm("final_norm", x))

    of = case("keel", "2601.19895", layers=2)
    x = of.x[0]
    for s in of.sites:
        x = of.norm(f"{of.site(s)}.after", len(of.sites) * x + of.pre_norm_branch(s, x))
    of.save(x)

    of = case("peri", "Kim et al. 2025", layers=2)
    x = of.norm("entry_norm", of.x[0])
    for s in of.sites:
        x = x + of.norm(f"{of.site(s)}.inside", of.pre_norm_branch(s, x))
    of.save(of.norm("final_norm", x))

    of = case("span", "2601.22580", layers=2, lanes=2, inputs=1)
    x = of.x[0]
    for i in range(of.layers):
        read = x if i > 0 else of.norm("entry_norm", x)  # the sum uses the unnormalized x
        y = of.norm(f"{of.site(2 * i)}.after", x + of.branch(2 * i, read))
        x = of.norm(f"{of.site(2 * i + 1)}.after", x + of.branch(2 * i + 1, y))
    of.save(x)

    # Qwen-Applications/SiameseNorm, deit-model-siamesenorm.py: its norm of x at the beginning of a sublayer is the
    # previous sublayer's `after` here.
    of = case("siamese", "2602.08064", layers=2, lanes=2, inputs=1, norm="layer")
    x, y = of.norm("entry_norm", of.x[0]), of.x[0]
    for s in of.sites:
        site = of.site(s)
        f = of.pre_norm_branch(s, x + of.norm(f"{site}.last_lane", y))
        x = of.norm(f"{site}.after", x + f / math.sqrt(2 * (s // 2 + 1)))
        y = y + f
    of.save(of.norm("final_norm", x + of.norm("exit.last_lane", y)))

    # A layer is a sublayer with its residual, applied to the predicted lane (Gemma 3n).
    of = case("altup", "Baykal et al. 2023: predict, compute, correct", layers=3, lanes=2)
    x = of.x
    for s in of.sites:
        site, active = of.site(s), s // 2 % of.lanes
        predicted = torch.einsum("ij,jrd->ird", of.mix(f"{site}.carry", of.lanes, of.lanes), x)
        y = predicted[active] + of.pre_norm_branch(s, predicted[active])
        correct = of.parameter(f"{site}.write.base", of.lanes)
        x = predicted + correct[:, None, None] * (y - predicted[active])
        of.initial |= {f"{site}.carry.base": torch.eye(of.lanes),
                       f"{site}.write.base": torch.ones(of.lanes)}
    of.save(of.norm("final_norm", x.sum(0)))

    # NVIDIA/Megatron-LM, pull request 6716.
    of = case("wide", "Megatron-LM's wide residual", layers=2, lanes=3)
    x = of.x
    for s in of.sites:
        read, write = (of.parameter(f"{of.site(s)}.{mix}.base", of.lanes)
                       for mix in ("read", "write"))
        f = of.pre_norm_branch(s, torch.einsum("i,ird->rd", read, x))
        x = x + 2 * torch.sigmoid(write)[:, None, None] * f
    of.save(of.norm("final_norm", x.mean(0)))

    # KellerJordan/modded-nanogpt, pull request 230: its lanes share one factor, and are one stream in
    # the first seven of eleven layers.
    of = case("two-lanes", "modded-nanogpt's parallel residuals", layers=2, lanes=2)
    x = of.x
    for s in of.sites:
        f = of.pre_norm_branch(s, x[s % 2])
        carry, write = (of.parameter(f"{of.site(s)}.{mix}.base", 2, mean=1)
                        for mix in ("carry", "write"))
        x = carry[:, None, None] * x + write[:, None, None] * f
        of.initial |= {f"{of.site(s)}.carry.base": torch.full([2], 1.1**0.5),
                       f"{of.site(s)}.write.base": torch.tensor([1, 1 if s % 2 else 1.5])}
    of.save(of.norm("final_norm", x.mean(0)))

    # KellerJordan/modded-nanogpt, pull request 159: in 11 layers, the fourth's output is added again before the
    # seventh. In 6 layers, it is the second's output, added before the fourth.
    of = case("saved-skip", "modded-nanogpt's saved activation", layers=6, lanes=2, inputs=1)
    x = of.x[0]
    for s in of.sites:
        if s == 4:
            saved = x
        if s == 6:
            name = f"{of.site(s)}.carry.base"
            x = x + torch.sigmoid(of.parameter(name, 1)) * saved
            of.initial[name] = torch.tensor([-1.5])
        x = x + of.pre_norm_branch(s, x)
    of.save(of.norm("final_norm", x))


def main():
    torch.set_default_dtype(torch.float64)
    OUT.mkdir(exist_ok=True)
    tile = of_tile_kernels()
    of_hyper_connections()
    of_mhc_lite(tile)
    of_attention_residuals()
    of_dense_former()
    of_mudd()
    of_nanochat()
    of_residual_dual()
    of_orthogonal()
    of_ngpt()
    written_out()


if __name__ == "__main__":
    main()
