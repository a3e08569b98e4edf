"""A small artificial language: text for language models and pairs of passages for classifiers.

A sentence is determiner, adjective, noun, verb, determiner, noun and stop. All its words belong to one topic,
and a determiner agrees with the class of its noun. The next sentence keeps the topic with a probability of 0.8.
"""

from __future__ import annotations

import dataclasses
from random import Random

import torch
from torch import Tensor

VOCABULARY = 128
TOPICS = 4
SPECIAL = 5  # the first ids are for padding and the marks of a tokenizer
NOUNS, VERBS, ADJECTIVES = 12, 8, 6  # the number of words of each topic
STOP, DETERMINERS = SPECIAL, SPECIAL + 1
FIRST_WORD = DETERMINERS + 4
IGNORED = -100  # the label that the losses of transformers ignore


@dataclasses.dataclass(frozen=True)
class Marks:
    """The ids of a tokenizer's marks."""

    begin: int
    between: tuple[int, ...]
    end: int
    padding: int
    mask: int = 4


def _word(topic: int, kind: int, index: int) -> int:
    """The id of a word; kind: 0 noun, 1 verb, 2 adjective."""
    return FIRST_WORD + topic * (NOUNS + VERBS + ADJECTIVES) + (0, NOUNS, NOUNS + VERBS)[kind] + index


def _phrase(topic: int, random: Random, adjective: bool) -> list[int]:
    noun = min(random.randrange(NOUNS), random.randrange(NOUNS))  # the first nouns are the most frequent
    determiner = DETERMINERS + 2 * (noun % 2) + random.randrange(2)
    described = [_word(topic, 2, random.randrange(ADJECTIVES))] if adjective else []
    return [determiner, *described, _word(topic, 0, noun)]


def sentence(topic: int, random: Random) -> list[int]:
    verb = _word(topic, 1, random.randrange(VERBS))
    return [*_phrase(topic, random, random.random() < 0.5), verb, *_phrase(topic, random, False), STOP]


def passage(length: int, topic: int, random: Random, stays: float = 0.8) -> list[int]:
    """stays: the probability that the next sentence keeps the topic."""
    words: list[int] = []
    while len(words) < length:
        words += sentence(topic, random)
        topic = topic if random.random() < stays else random.randrange(TOPICS)
    return words[:length]


def lengths_of(count: int, longest: int, padded: bool) -> list[int]:
    """Lengths of the sequences of a batch: of a padded one, all different and the first the longest."""
    return [longest - padded * (longest // 8 * (i % 5) + i // 5 % 3) for i in range(count)]


def text_batch(count: int, length: int, marks: Marks, padded: bool, seed: int) -> dict[str, Tensor]:
    """A batch for next-token prediction: ids, mask and labels [count, length]."""
    random = Random(seed)
    rows = [passage(n, random.randrange(TOPICS), random) for n in lengths_of(count, length, padded)]
    ids, mask = _stacked(rows, length, marks.padding)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, IGNORED)}


def pair_batch(count: int, length: int, marks: Marks, padded: bool, seed: int) -> dict[str, Tensor]:
    """A batch for classification: ids, mask and types [count, length]; labels [count].

    The label is 1 if the topic of the first passage is one of the last two; the second passage does not matter.
    """
    random = Random(seed)
    rows, types = [], []
    labels = [i % 2 for i in range(count)]
    random.shuffle(labels)
    for label, n in zip(labels, lengths_of(count, length, padded)):
        first = 2 * label + random.randrange(2)
        rest = n - 2 - len(marks.between)
        head = [marks.begin, *passage(rest // 2, first, random, 1.0), *marks.between]
        second = passage(rest - rest // 2, random.randrange(TOPICS), random, 1.0)
        rows.append([*head, *second, marks.end])
        types.append([0] * len(head) + [1] * (n - len(head)))
    ids, mask = _stacked(rows, length, marks.padding)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": _stacked(types, length, 0)[0],
            "labels": torch.tensor(labels)}


def masked_batch(count: int, length: int, marks: Marks, seed: int) -> dict[str, Tensor]:
    """A batch for masked-token prediction: 40 % of the words are replaced by the mark of a mask."""
    batch = pair_batch(count, length, marks, True, seed)
    ids = batch["input_ids"]
    chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
    chosen &= ids >= SPECIAL
    batch["labels"] = ids.masked_fill(~chosen, IGNORED)
    batch["input_ids"] = ids.masked_fill(chosen, marks.mask)
    return batch


def _stacked(rows: list[list[int]], length: int, padding: int) -> tuple[Tensor, Tensor]:
    """The rows with padding behind them, and a mask that is 1 where there is none."""
    ids = torch.tensor([row + [padding] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return ids, mask
