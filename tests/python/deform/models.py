"""The seven models that DEForm damages, made small: transformers' own classes, built from configurations.

Dropout rates, ε, activation, initializer_range, positions and types are those of the published checkpoints.
Width, heads, vocabulary and the number of layers are smaller; the distilled models keep their six layers.
GPT-Neo has a quarter of its positions and of its window, because it keeps its masks as buffers.
Encoders classify pairs of passages and decoders predict the next token, as in the paper.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable

import torch
import transformers
from torch import Tensor, nn

from . import language

WIDTH, HEADS, LAYERS, DISTILLED_LAYERS = 96, 4, 8, 6
COUNT = 4  # sequences of a batch; equal to the number of heads, so that a mask can be broadcast over the wrong axis
LENGTHS = {"encoder": 48, "decoder": 80}  # half of the decoders' length exceeds the longest truncated cache
STEPS, TASK_STEPS, STEP_COUNT = 150, 80, 8
Batch = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Family:
    name: str
    kind: str
    """"encoder" or "decoder"."""
    model: str
    """The name of the class in transformers that is damaged."""
    pretrained: str
    """The class that is fitted first; it has the same layers."""
    config: Callable[[], Any]
    marks: language.Marks
    has_types: bool = False

    def fresh(self, seed: int = 0) -> nn.Module:
        """A model with initial weights, in training mode."""
        torch.manual_seed(seed)
        return getattr(transformers, self.model)(self.config()).train()

    def batch(self, padded: bool = True, seed: int = 1000, count: int = COUNT) -> Batch:
        if self.kind == "decoder":
            return language.text_batch(count, LENGTHS["decoder"], self.marks, padded, seed)
        return self._with_types(language.pair_batch(count, LENGTHS["encoder"], self.marks, padded, seed))

    def _with_types(self, batch: Batch) -> Batch:
        return batch if self.has_types else {k: v for k, v in batch.items() if k != "token_type_ids"}

    def fitted(self, seed: int = 0, folder: Path | None = None) -> nn.Module:
        """A model after its first training and, of an encoder, a second one on its task; in training mode.

        folder: where the weights are kept for the next call.
        """
        model = self.fresh(seed)
        model.load_state_dict(_fitted_weights(self, seed, folder))
        return model


def _config(name: str, **values: Any) -> Any:
    return getattr(transformers, name)(vocab_size=language.VOCABULARY, **values)


def _bert() -> Any:
    return _config("BertConfig", hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                   intermediate_size=4 * WIDTH, max_position_embeddings=512, type_vocab_size=2,
                   layer_norm_eps=1e-12, hidden_act="gelu", hidden_dropout_prob=0.1,
                   attention_probs_dropout_prob=0.1, initializer_range=0.02, pad_token_id=0)


def _distilbert() -> Any:
    return _config("DistilBertConfig", dim=WIDTH, n_layers=DISTILLED_LAYERS, n_heads=HEADS, hidden_dim=4 * WIDTH,
                   max_position_embeddings=512, dropout=0.1, attention_dropout=0.1, activation="gelu",
                   initializer_range=0.02, seq_classif_dropout=0.2, sinusoidal_pos_embds=False, pad_token_id=0)


def _roberta(layers: int) -> Any:
    return _config("RobertaConfig", hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=HEADS,
                   intermediate_size=4 * WIDTH, max_position_embeddings=514, type_vocab_size=1,
                   layer_norm_eps=1e-5, hidden_act="gelu", hidden_dropout_prob=0.1,
                   attention_probs_dropout_prob=0.1, initializer_range=0.02, pad_token_id=1, bos_token_id=0,
                   eos_token_id=2)


def _gpt2(layers: int) -> Any:
    last = language.VOCABULARY - 1
    return _config("GPT2Config", n_embd=WIDTH, n_layer=layers, n_head=HEADS, n_positions=1024,
                   activation_function="gelu_new", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
                   layer_norm_epsilon=1e-5, initializer_range=0.02, bos_token_id=last, eos_token_id=last)


def _gpt_neo() -> Any:
    last = language.VOCABULARY - 1
    return _config("GPTNeoConfig", hidden_size=WIDTH, num_layers=LAYERS, num_heads=HEADS,
                   attention_types=[[["global", "local"], LAYERS // 2]], max_position_embeddings=512,
                   window_size=64, activation_function="gelu_new", resid_dropout=0.0, embed_dropout=0.0,
                   attention_dropout=0.0, layer_norm_epsilon=1e-5, initializer_range=0.02,
                   bos_token_id=last, eos_token_id=last)


_BERT_MARKS = language.Marks(begin=2, between=(3,), end=3, padding=0)
_ROBERTA_MARKS = language.Marks(begin=0, between=(2, 2), end=2, padding=1)
_GPT_MARKS = language.Marks(begin=127, between=(), end=127, padding=127)

FAMILIES = {family.name: family for family in [
    Family("BERT", "encoder", "BertForSequenceClassification", "BertForMaskedLM", _bert, _BERT_MARKS, True),
    Family("DistilBERT", "encoder", "DistilBertForSequenceClassification", "DistilBertForMaskedLM",
           _distilbert, _BERT_MARKS),
    Family("RoBERTa", "encoder", "RobertaForSequenceClassification", "RobertaForMaskedLM",
           lambda: _roberta(LAYERS), _ROBERTA_MARKS),
    Family("DistilRoBERTa", "encoder", "RobertaForSequenceClassification", "RobertaForMaskedLM",
           lambda: _roberta(DISTILLED_LAYERS), _ROBERTA_MARKS),
    Family("GPT-2", "decoder", "GPT2LMHeadModel", "GPT2LMHeadModel", lambda: _gpt2(LAYERS), _GPT_MARKS),
    Family("DistilGPT-2", "decoder", "GPT2LMHeadModel", "GPT2LMHeadModel",
           lambda: _gpt2(DISTILLED_LAYERS), _GPT_MARKS),
    Family("GPT-Neo", "decoder", "GPTNeoForCausalLM", "GPTNeoForCausalLM", _gpt_neo, _GPT_MARKS),
]}


# -- Training --


def optimizer_of(model: nn.Module, rate: float = 5e-5, decay: float = 0.01) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices and embeddings, and none on biases and norms."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": decay},
                              {"params": others, "weight_decay": 0.0}], lr=rate)


def train(model: nn.Module, batch_of: Callable[[int], Batch], steps: int, rate: float = 1e-3) -> float:
    """Trains with a linear warm-up over a tenth of the steps; returns the mean loss of the last ten."""
    model.train()
    optimizer, losses = optimizer_of(model, rate), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / (steps / 10))
        optimizer.zero_grad()
        loss = model(**batch_of(step)).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    return sum(losses[-10:]) / len(losses[-10:])


def _fit(family: Family, seed: int) -> nn.Module:
    model = family.fresh(seed)
    torch.manual_seed(seed)
    first = 10_000 * (seed + 1)
    if family.kind == "decoder":
        train(model, lambda step: family.batch(True, first + step, STEP_COUNT), STEPS)
        return model
    masked = getattr(transformers, family.pretrained)(family.config())
    train(masked, lambda step: family._with_types(language.masked_batch(
        STEP_COUNT, LENGTHS["encoder"], family.marks, first + step)), STEPS, 2e-3)
    layers = model.base_model.load_state_dict(masked.base_model.state_dict(), strict=False)
    assert not layers.unexpected_keys and all("pooler" in key for key in layers.missing_keys)
    train(model, lambda step: family.batch(True, first + STEPS + step, STEP_COUNT), TASK_STEPS, 1e-3)
    return model


@lru_cache(maxsize=None)
def _fitted_weights(family: Family, seed: int, folder: Path | None) -> dict[str, Tensor]:
    file = None if folder is None else folder / f"{family.name}-{seed}.pt"
    if file is not None and file.exists():
        return torch.load(file, weights_only=True)
    weights = copy.deepcopy(_fit(family, seed).state_dict())
    if file is not None:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(weights, file)
    return weights
