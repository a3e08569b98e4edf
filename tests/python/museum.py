"""The museum: bugs of public threads, rebuilt in small models of our own.

An exhibit is a class that overrides the faulty part, so its base class is the sound version. Each is written anew from
the description in its thread. museum_test.py checks all of them, and docs/museum.md shows them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

from museum_models import (LENGTH, WIDTH, Attention, CachedDecoder, CausalAttention,
                           LayerNorm, PaddedEncoder, PostNorm, PreNorm, RMSNorm, Stack, decoder, encoder,
                           ids, next_token, same_token, small)

Case = dict[str, Any]  # model, and the arguments of addnorm.check


@dataclasses.dataclass(frozen=True)
class Exhibit:
    thread: str
    """"owner/repository#number", on GitHub."""
    title: str
    rule: str | None
    where: str
    broken: type
    build: Callable[[type], Case]

    @property
    def wrong(self) -> str:
        """The fault, in a sentence or two."""
        return " ".join(str(self.broken.__doc__).split())

    @property
    def sound(self) -> type:
        return self.broken.__bases__[0]

    @property
    def name(self) -> str:
        return self.broken.__name__

    @property
    def url(self) -> str:
        return "https://github.com/" + self.thread.replace("#", "/issues/")

    def case(self, part: type) -> Case:
        torch.manual_seed(0)
        return self.build(part)


EXHIBITS: list[Exhibit] = []
UNNAMED: list[Exhibit] = []  # not named by the doctor, or only in notes


def exhibit(thread: str, title: str, rule: str | None, where: str,
            build: Callable[[type], Case]) -> Callable[[type], type]:
    def add(broken: type) -> type:
        (UNNAMED if rule is None else EXHIBITS).append(Exhibit(thread, title, rule, where, broken, build))
        return broken
    return add


# -- Models for the exhibits --


def of_tokens(model: nn.Module, **more: Any) -> Case:
    return {"model": model, "inputs": ids(), "loss": next_token, **more}


def in_decoder(layer: type) -> Case:
    return of_tokens(decoder(layer))


def in_post_norm(layer: type) -> Case:
    return of_tokens(decoder(layer, final=nn.Identity))


def in_deepnorm(layer: type) -> Case:
    return of_tokens(decoder(layer, final=nn.Identity), recipe={"placement": "deepnorm"})


def in_attention(attention: type) -> Case:
    return of_tokens(decoder(lambda: PreNorm(attention=attention)))


def in_both_ways(attention: type) -> Case:
    return of_tokens(Stack(lambda: PreNorm(attention=attention)), loss=same_token)


def as_norm(norm: type) -> Case:
    return of_tokens(decoder(lambda: PreNorm(norm), final=norm))


def as_norm_of_encoder(norm: type) -> Case:
    return of_tokens(encoder(lambda attention: PreNorm(norm, attention), final=norm), loss=same_token)


def as_norm_of_small(norm: type) -> Case:
    return of_tokens(small(decoder(lambda: PreNorm(norm), final=norm)))


def as_model(model: type) -> Case:
    return of_tokens(model())


# -- Residual connections --


@exhibit("kyegomez/BitNet#32", "x + x", "residual-missing", "layer 0, attention", in_decoder)
class AddsTheBranchToItself(PreNorm):
    """The output of attention is assigned to x, so that the line after it adds the branch to itself."""

    def forward(self, x):
        x = self.attention(self.norm_1(x))
        x = x + x
        return x + self.mlp(self.norm_2(x))


@exhibit("facebookresearch/multimodal#305", "The input is overwritten before it is added",
         "residual-missing", "layer 0, attention", in_decoder)
class OverwritesItsInput(PreNorm):
    """Both sublayers assign their output to x before x is added."""

    def forward(self, x):
        x = self.attention(self.norm_1(x))
        x = x + self.dropout(x)
        x = self.mlp(self.norm_2(x))
        return x + self.dropout(x)


@exhibit("lucidrains/enformer-pytorch#6", "A residual around a block that has one", "residual-twice",
         "layer 0, feed-forward", in_decoder)
class AddsInsideAndAround(PreNorm):
    """The block adds its input itself, and stands in a wrapper that adds it again."""

    def block(self, x):
        return x + self.mlp(self.norm_2(x))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.block(x)


@exhibit("lbcb-sci/RiNALMo#9", "The norm's output as the residual", "norm-over-stream",
         "layer 0, attention", in_decoder)
class AddsTheNorm(PreNorm):
    """The variable of the stream holds the norm's output when attention is added to it."""

    def forward(self, x):
        x = self.norm_1(x)
        x = x + self.attention(x)
        return x + self.mlp(self.norm_2(x))


class ReturnsResidual(PreNorm):
    """A norm that returns its output and the residual to be added later."""

    def __init__(self):
        super().__init__(RMSNorm)

    def normalize(self, norm, x):
        return norm(x), x

    def forward(self, x):
        h, residual = self.normalize(self.norm_1, x)
        x = residual + self.attention(h)
        h, residual = self.normalize(self.norm_2, x)
        return residual + self.mlp(h)


@exhibit("GeeeekExplorer/nano-vllm#170", "An in-place norm changes the residual", "norm-over-stream",
         "layer 0, attention", lambda layer: of_tokens(decoder(layer, final=RMSNorm)))
class NormalizesInPlace(ReturnsResidual):
    """float() does not copy a float32 tensor, so mul_() writes the normalized values over the
    residual."""

    def normalize(self, norm, x):
        rows = x.float()
        rows.mul_(norm.scale(rows).detach())
        return rows * norm.weight, x


@exhibit("strutive07/transformer-tensorflow2.0#14",
         "The layer's input is added after the feed-forward", "sublayer-input",
         "layer 0, feed-forward", in_post_norm)
class AddsAStaleInput(PostNorm):
    """The second residual adds what came into the layer instead of what came out of attention's
    norm."""

    def forward(self, x):
        h = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.mlp(h))


class DeepNorm(PostNorm):
    """norm(α·x + F(x)) with α = (2·layers)^¼, for 3 layers."""
    alpha = 6**0.25

    def forward(self, x):
        x = self.norm_1(self.alpha * x + self.attention(x))
        return self.norm_2(self.alpha * x + self.mlp(x))


@exhibit("labmlai/annotated_deep_learning_paper_implementations#145", "DeepNorm's α at the branch",
         "residual-factor", "layer 0, attention", in_deepnorm)
class ScalesTheBranch(DeepNorm):
    """α belongs to the residual. It was given to the branch."""

    def forward(self, x):
        x = self.norm_1(x + self.alpha * self.attention(x))
        return self.norm_2(x + self.alpha * self.mlp(x))


@exhibit("labmlai/annotated_deep_learning_paper_implementations#145", "DeepNorm without its norm",
         "norm-unused", "layers.0.norm_1", in_deepnorm)
class ForgetsTheNorm(DeepNorm):
    """The same module made a norm and never called it."""

    def forward(self, x):
        x = self.alpha * x + self.attention(x)
        return self.alpha * x + self.mlp(x)


@exhibit("theislab/CellFlow#296", "Dropout of the wrong variable", "dropout-on-stream",
         "layers.0.dropout", in_decoder)
class DropsTheBranch(PreNorm):
    """Dropout is applied to the input of the feed-forward, and the output of that is thrown away."""

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm_1(x)))
        f = self.mlp(self.norm_2(x))
        f = self.dropout(x)
        return x + f


@exhibit("soobinseo/Transformer-TTS#11", "Dropout of the sum", "dropout-on-stream", "layers.0.dropout",
         in_post_norm)
class DropsTheSum(PostNorm):
    """Dropout follows the residual addition, so the stream itself is dropped."""

    def forward(self, x):
        x = self.norm_1(x + self.dropout(self.attention(x)))
        return self.norm_2(self.dropout(x + self.mlp(x)))


# -- Where norms are --


@exhibit("ml-explore/mlx#1636", "The first norm in the place of the second", "norm-shared",
         "layers.0.norm_1", in_decoder)
class UsesOneNormTwice(PreNorm):
    """A copied line calls the norm of the sublayer before; its own norm is never used."""

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm_1(x)))
        return x + self.dropout(self.mlp(self.norm_1(x)))


@exhibit("NVIDIA-NeMo/Speech#2197", "No norm behind a pre-norm stack", "final-norm", "final norm",
         lambda model: of_tokens(model(PreNorm)))
class EndsWithoutNorm(Stack):
    """A pre-norm stack handed its unnormalized stream to the head."""

    def __init__(self, layer):
        super().__init__(layer, final=nn.Identity)


class Projected(PreNorm):
    """Queries, keys and values are projected from their inputs."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.attention.qkv = nn.Identity()

    def read(self, x):
        h = self.norm_1(x)
        return h, h

    def forward(self, x):
        query, context = self.read(x)
        x = x + self.attention(torch.cat([self.q(query), self.kv(context)], -1))
        return x + self.mlp(self.norm_2(x))


@exhibit("facebookresearch/xformers#233", "Only the queries are normalized", "sublayer-input",
         "layer 0, attention", in_decoder)
class NormalizesQueriesOnly(Projected):
    """The wrapper of pre-norm normalized its first argument; keys and values were made of the raw
    stream."""

    def read(self, x):
        return self.norm_1(x), x


# -- Computation of norms --


@exhibit("jadore801120/attention-is-all-you-need-pytorch#17", "Statistics over tokens", "norm-axis",
         "layer 0, attention, norm before it", as_norm_of_encoder)
class NormalizesTokens(LayerNorm):
    """Mean and deviation were taken along the sequence instead of along the features."""

    def mean(self, x):
        return x.mean(1, keepdim=True)

    def deviation(self, x):
        return (x.var(1, unbiased=False, keepdim=True) + self.eps).sqrt()


class FunctionalNorm(LayerNorm):
    """Normalizes over the given shape."""

    def shape(self, x):
        return x.shape[-1:]

    def forward(self, x):
        return F.layer_norm(x, self.shape(x), eps=self.eps) * self.weight + self.bias


@exhibit("Qualcomm-AI-research/geometric-algebra-transformer#8", "Statistics over tokens and features",
         "norm-axis", "layer 0, attention, norm before it", as_norm_of_encoder)
class NormalizesSequences(FunctionalNorm):
    """normalized_shape held every dimension but the first, so all tokens of a sequence share a mean."""

    def shape(self, x):
        return x.shape[1:]


@exhibit("harvardnlp/annotated-transformer#119", "The unbiased deviation", "variance-divisor",
         "layer 0, attention, norm before it", as_norm)
class DividesByOneLess(LayerNorm):
    """torch.std divides by n − 1 by default."""

    def deviation(self, x):
        return x.std(-1, keepdim=True) + self.eps


@exhibit("tracel-ai/burn#2185", "ε outside of the root", "epsilon-place",
         "layer 0, attention, norm before it", as_norm_of_small)
class AddsEpsilonOutside(LayerNorm):
    """LayerNorm divided by √Var + ε."""

    def deviation(self, x):
        return x.var(-1, unbiased=False, keepdim=True).sqrt() + self.eps


@exhibit("allenai/OLMo#281", "RMSNorm's ε outside of the root", "epsilon-place",
         "layer 0, attention, norm before it", as_norm_of_small)
class AddsEpsilonToTheRMS(RMSNorm):
    """The row was divided by its RMS plus ε, where Llama has the root of mean square plus ε."""

    def scale(self, x):
        return 1 / (x.norm(dim=-1, keepdim=True) * WIDTH**-0.5 + self.eps)


@exhibit("131250208/TPlinker-joint-extraction#37", "A square in place of the root", "norm-power",
         "layer 0, attention, norm before it", as_norm)
class SquaresTheVariance(LayerNorm):
    """The deviation was computed as (variance + ε) to the power of 2 instead of ½."""

    def deviation(self, x):
        return (x.var(-1, unbiased=False, keepdim=True) + self.eps) ** 2


@exhibit("keras-team/keras#21234", "RMSNorm by the variance", "norm-power",
         "layer 0, attention, norm before it", as_norm)
class DividesByTheDeviation(RMSNorm):
    """The mean stays in the row, but the divisor is made of the variance around it."""

    def scale(self, x):
        return (x.var(-1, unbiased=False, keepdim=True) + self.eps).rsqrt()


@exhibit("stanford-cs336/assignment1-basics#93", "The root of a deviation", "norm-power",
         "layer 0, attention, norm before it", as_norm)
class TakesTheRootTwice(RMSNorm):
    """√(std + ε): a standard deviation stood where a mean square belongs."""

    def scale(self, x):
        return (x.std(-1, keepdim=True) + self.eps).rsqrt()


def with_final_norm(final: type) -> Case:
    return of_tokens(small(decoder(lambda: PreNorm(RMSNorm), final=final)))


@exhibit("huggingface/transformers#38025", "ε is not passed on", "epsilon-size", "final norm",
         with_final_norm)
class HasItsDefault(RMSNorm):
    """One norm was made without the configuration's ε, and used its default of 1e-6."""

    def __init__(self):
        super().__init__(eps=1e-6)


class Configured(RMSNorm):
    """A kernel with ε as an argument."""
    written = 1e-5

    def __init__(self):
        super().__init__()
        del self.eps

    def scale(self, x):
        return (x.square().mean(-1, keepdim=True) + self.written).rsqrt()


@exhibit("apache/tvm#15856", "ε is written into the kernel", "epsilon-size",
         "layer 0, attention, norm before it",
         lambda norm: of_tokens(small(decoder(lambda: PreNorm(norm), final=norm, rms_norm_eps=1e-5))))
class HardCodesEpsilon(Configured):
    """The kernel had ε = 1e-6 in its code; Llama 2 was trained with 1e-5."""
    written = 1e-6


class GemmaRMSNorm(RMSNorm):
    """Multiplies by 1 + γ; γ is initially 0."""

    def __init__(self):
        super().__init__(eps=1e-6)
        nn.init.zeros_(self.weight)

    def forward(self, x):
        return x * self.scale(x) * (1 + self.weight)


def as_gemma(norm: type) -> Case:
    return of_tokens(decoder(lambda: PreNorm(norm), final=norm, model_type="gemma", rms_norm_eps=1e-6))


@exhibit("huggingface/transformers#40796", "1 + γ starts at 2", "gamma-form", "all norms", as_gemma)
class StartsAtOne(GemmaRMSNorm):
    """Norms that multiply with 1 + γ were initialized with γ = 1, like others."""

    def __init__(self):
        super().__init__()
        nn.init.ones_(self.weight)


@exhibit("utensils/mold#1078", "1 is added to γ twice", "gamma-form", "all norms", as_gemma)
class AddsOneTwice(GemmaRMSNorm):
    """The file's γ already contained the 1, which the norm added again."""

    def __init__(self):
        super().__init__()
        nn.init.normal_(self.weight, 1, 0.1)


@exhibit("meta-llama/llama#1048", "Statistics in half precision", "rounded-statistics",
         "layer 0, attention, norm before it", as_norm)
class RoundsStatistics(RMSNorm):
    """Without the conversion to float32 the mean square has the 11 bits of float16."""

    def scale(self, x):
        half = x.half()
        return (half * half).float().mean(-1, keepdim=True).half().add(self.eps).float().rsqrt()


@exhibit("huggingface/candle#2168", "A norm without a backward", "gradient-missing", "norm", as_norm)
class HasNoBackward(LayerNorm):
    """The fast path of the norm was an operation without a backward; what comes before it does not
    learn."""

    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


@exhibit("tinygrad/tinygrad#4904", "Statistics are constants", "statistics-detached",
         "layers.0.norm_1", as_norm)
class DetachesStatistics(LayerNorm):
    """detach() around the statistics removes the part of the gradient that goes through them."""

    def mean(self, x):
        return super().mean(x).detach()

    def deviation(self, x):
        return super().deviation(x).detach()


# -- Attention --


@exhibit("rasbt/LLMs-from-scratch#1062", "A mask of the wrong sign", "future-leak",
         "layers.0.attention", in_attention)
class InvertsItsMask(CausalAttention):
    """The mask was true where a token must not look, and the function reads it as where it may."""

    def hide(self, scores):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(~later, torch.finfo(scores.dtype).min)


@exhibit("karpathy/nanochat#844", "Means of blocks of tokens", "future-leak", "layers.0.attention",
         in_attention)
class AveragesBlocks(CausalAttention):
    """Keys and values are means of whole blocks, so a token reads of the later ones of its block."""

    def heads(self, x):
        q, k, v = super().heads(x)
        k, v = (t.unflatten(2, (-1, 4)).mean(3).repeat_interleave(4, 2) for t in (k, v))
        return q, k, v


@exhibit("om-ai-lab/OmDet#19", "batch_first is missing", "batch-leak", "layers.0.attention",
         in_both_ways)
class AttendsOverTheBatch(Attention):
    """Attention expected [length, batch, width] and got [batch, length, width]."""

    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


def with_padding(model: type) -> Case:
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 3], [LENGTH - 2], [LENGTH - 5]])
    return of_tokens(model(), inputs={"ids": ids(), "attention_mask": mask}, loss=same_token)


@exhibit("lucidrains/halonet-pytorch#6", "Only the padding is seen", "padding-leak", "attention_mask",
         with_padding)
class ShowsThePadding(PaddedEncoder):
    """The mask marks what is valid, and the code hides what the mask marks."""

    def shown(self, attention_mask):
        return ~attention_mask


@exhibit("ml-explore/mlx-lm#93", "Positions begin again behind the cache", "cache-mismatch",
         "past_key_values", as_model)
class CountsFromZero(CachedDecoder):
    """New tokens got the positions from 0 on, whatever the cache held."""

    def place(self, past, length):
        return super().place(0, length)


@exhibit("huggingface/blog#2893", "No 1/√d", "attention-scale", "layers.0.attention", in_attention)
class DoesNotScale(CausalAttention):
    """The logits were not divided by the root of the heads' width."""

    def weights(self, scores):
        return scores.softmax(-1)


@exhibit("FrancescoSaverioZuppichini/ViT#2", "1/√d behind the softmax", "attention-scale",
         "layers.0.attention", in_both_ways)
class ScalesBehindTheSoftmax(Attention):
    """The factor multiplied the weights instead of the logits."""

    def weights(self, scores):
        return scores.softmax(-1) / math.sqrt(scores.shape[-1])


@exhibit("rixwew/pytorch-fm#21", "Dropout in evaluation", "eval-noise",
         "layers.0.attention, layers.1.attention, layers.2.attention", in_attention)
class AlwaysDrops(CausalAttention):
    """F.dropout was called without training=self.training."""

    def weights(self, scores):
        return F.dropout(super().weights(scores), 0.1)


# -- Parameters, initialization and the optimizer --


class TiedDecoder(Stack):
    def __init__(self):
        super().__init__(tie_word_embeddings=True)
        small(self)
        self.tie()

    def tie(self):
        self.head.weight = self.tokens.weight


@exhibit("Modalities/modalities#357", "Tied weights come apart", "tying-broken", "head.weight",
         as_model)
class MakesThemAnew(TiedDecoder):
    """Weights were made anew after they had been tied (on the device meta), each for itself."""

    def tie(self):
        super().tie()
        self.head.weight = nn.Parameter(torch.empty_like(self.tokens.weight).normal_(0, 0.02))


class GPT2(Stack):
    """Projections into the stream are initially smaller by √(2·layers)."""

    def __init__(self):
        super().__init__(model_type="gpt2")
        small(self)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if self.is_projection(name):
                    parameter /= math.sqrt(2 * len(self.layers))

    def is_projection(self, name):
        return name.endswith(("out.weight", "mlp.2.weight"))


@exhibit("huggingface/transformers#47458", "A name that never matches", "unscaled-projection",
         "layer 0, attention", as_model)
class ComparesWholeNames(GPT2):
    """The weights' names were compared with == and have the names of their modules before them."""

    def is_projection(self, name):
        return name in ("out.weight", "mlp.2.weight")


@exhibit("karpathy/llama2.c#579", "The wrong matrix is scaled", "unscaled-projection",
         "layer 0, feed-forward", as_model)
class ScalesTheWrongMatrix(GPT2):
    """The feed-forward's first matrix was scaled instead of the last one, which writes into the
    stream."""

    def is_projection(self, name):
        return name.endswith(("out.weight", "mlp.0.weight"))


class Untied(Stack):
    std = WIDTH**-0.5

    def __init__(self):
        super().__init__()
        nn.init.normal_(self.head.weight, 0, self.std)


@exhibit("huggingface/transformers#26441", "A head of variance 1", "initial-loss", "loss", as_model)
class HasALargeHead(Untied):
    """The head's weights were drawn from N(0, 1), so the logits have the width as their variance."""
    std = 1


class Training:
    """AdamW with the given parameters."""

    def groups(self, model):
        return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


def in_training(training: type) -> Case:
    model = decoder()
    return of_tokens(model, optimizer=torch.optim.AdamW(training().groups(model), lr=1e-3))


@exhibit("zjunlp/HVPNeT#5", "A layer that no optimizer has", "not-in-optimizer", "head", in_training)
class ForgetsTheHead(Training):
    """The group of the last layers' parameters was made and not appended to the list."""

    def groups(self, model):
        return [{"params": [p for n, p in model.named_parameters() if not n.startswith("head")]}]


@exhibit("Lightning-AI/lit-llama#254", "Weight decay on gains", "decay-on-gain", "norms", in_training)
class DecaysEverything(Training):
    """One group with weight decay held all parameters, those of the norms too."""

    def groups(self, model):
        return [{"params": list(model.parameters()), "weight_decay": 0.1}]


# -- Bugs that the doctor does not name: `where` has the reason --


@exhibit("explainingai-code/DiT-PyTorch#1", "Attention in place of the feed-forward", None,
         "Notes say that nobody calls the feed-forward, and that attention's weights stand there twice. Unused "
         "modules are notes if every layer has them: many sound models have some.",
         in_decoder)
class AttendsTwice(PreNorm):
    """The second half of the layer calls attention again, and not the feed-forward."""

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm_1(x)))
        return x + self.dropout(self.attention(self.norm_2(x)))


@exhibit("Graylab/DL4Proteins-notebooks#12", "The root of the wrong width", None,
         "Only logits without any factor are judged: many models have a factor of their own.",
         in_attention)
class ScalesByTheWholeWidth(CausalAttention):
    """The logits were divided by the root of the model's width instead of the heads'."""

    def weights(self, scores):
        return (scores / math.sqrt(WIDTH)).softmax(-1)


@exhibit("bentrevett/pytorch-seq2seq#100", "One norm for both sublayers", None,
         "A note says that the norm is called twice: some models share norms by design.", in_post_norm)
class SharesItsNorm(PostNorm):
    """Attention and feed-forward had one LayerNorm, with one γ, between them."""

    def __init__(self):
        super().__init__()
        del self.norm_2

    def forward(self, x):
        x = self.norm_1(x + self.dropout(self.attention(x)))
        return self.norm_1(x + self.dropout(self.mlp(x)))


# Failures that other tools report for a broken model but not for the sound one, by the names of their checks. Measured
# with PyTorch 1.13; museum_test.py runs the installed tools.
OTHERS = {
    "torchtest 0.5": {
        "ForgetsTheNorm": "vars_change", "DropsTheBranch": "vars_change", "AttendsTwice": "vars_change",
        "UsesOneNormTwice": "vars_change", "HasNoBackward": "vars_change", "ForgetsTheHead": "vars_change"},
    "torchtest2 0.1.0": {
        "ForgetsTheNorm": "gradient_flow", "DropsTheBranch": "gradient_flow", "AttendsTwice": "gradient_flow",
        "UsesOneNormTwice": "gradient_flow", "HasNoBackward": "gradient_flow",
        "DetachesStatistics": "overfit_batch", "AttendsOverTheBatch": "batch_independence",
        "AlwaysDrops": "eval_determinism", "ForgetsTheHead": "optimizer_coverage"},
}
