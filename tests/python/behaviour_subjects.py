"""Subjects of small models, whose checks are called one by one."""

from types import SimpleNamespace

import torch
from addnorm.behaviour.run.subject import Calls, Subject
from torch import nn


def subject(model=None, **config):
    model = model or nn.Linear(2, 2)
    model.config = SimpleNamespace(**config)
    found = Subject(model, (), {}, None)
    found.runs.append(Calls())
    return found


def checks(s):
    return [line["check"] for line in s.lines]


class Layers(nn.Module):
    """Layers of a linear map and a norm."""

    def __init__(self, count=5, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.ModuleDict({"map": nn.Linear(width, width), "norm": nn.LayerNorm(width)})
                                    for _ in range(count))
        for layer in self.layers:
            nn.init.normal_(layer["norm"].bias, 0, 0.01)
            layer["norm"].weight.data += torch.linspace(0, 0.1, width)
            layer["map"].weight.data = layer["map"].weight.data.sign()  # its root mean square is 1
            layer["map"].bias.data.normal_()
