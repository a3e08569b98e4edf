"""Finds the layers of a model, which are similar modules in a list, and their runs in a forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from torch import nn

from ..._structure import hidden_modules, is_within, parent_of
from ..record.graph import Enter, Event, Leave, Value
from .names import ATTENTION, is_projection
from .norm_names import is_norm
from .parts import Place


class ProbeError(RuntimeError):
    """The error if a part is not found. Its message says what exists instead, and which argument of probe() helps."""


class Element(NamedTuple):
    """A layer: a module, or a list whose modules are called one by one."""
    path: str
    module: nn.Module


LISTS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def is_layer(module: nn.Module) -> bool:
    return any(is_norm(n, m) or ATTENTION.search(n) or ATTENTION.search(type(m).__name__)
               for n, m in module.named_modules() if n)


def elements_of(path: str, stack: nn.Module) -> List[Element]:
    return [Element(f"{path}.{name}" if path else name, m) for name, m in stack.named_children()]


def find_layers(model: nn.Module, layers: Union[str, Sequence[nn.Module], None]) -> Tuple[str, List[Element]]:
    """Returns the name of the list, or of the lists, and the layers."""
    modules = dict(model.named_modules())
    if layers is not None and not isinstance(layers, str):
        names = {id(m): name for name, m in modules.items()}
        chosen = list(layers)
        if len({id(m) for m in chosen}) < len(chosen):
            raise ProbeError("layers holds the same module twice; layers that share their weights are "
                             "counted as they are called: give each once")
        return "the given layers", [Element(names.get(id(m), f"layers[{i}]"), m) for i, m in enumerate(chosen)]
    if layers is not None:
        if layers not in modules:
            raise ProbeError(f"the model has no module {layers!r}; it has {kinds_within(model)}")
        found = modules[layers]
        return layers, elements_of(layers, found) if isinstance(found, LISTS) else [Element(layers, found)]
    stacks = without_nested({name: elements_of(name, m) for name, m in modules.items() if is_stack(m)})
    repeated = repeated_modules(model, stacks)
    if stacks or repeated:
        names = [*stacks, *repeated]
        return ", ".join(names), [e for found in (*stacks.values(), *repeated.values()) for e in found]
    single = single_blocks(model)
    if single:
        return ", ".join(e.path for e in single), single
    if is_layer(model) and any(map(is_projection, model.modules())):
        return "", [Element("", model)]
    raise ProbeError("no ModuleList or Sequential holds modules with attention or norms of rows in them; name it "
                     f"with layers='…'{words_of_hidden(model)}. The model has {kinds_within(model)}")


def kinds_within(module: nn.Module) -> str:
    names = [f"{n} ({type(m).__name__})" for n, m in module.named_modules() if n]
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "") if names else "no modules in it"


def words_of_hidden(model: nn.Module) -> str:
    """Returns a hint for an error if plain Python lists hold modules, which PyTorch does not register."""
    hidden = hidden_modules(model)
    return f"; {', '.join(hidden)} holds modules in a plain list, put them in an nn.ModuleList" if hidden else ""


def is_stack(module: nn.Module) -> bool:
    """Whether a list holds layers of a few classes, one after the other."""
    children = list(module.children())
    if not isinstance(module, LISTS) or not children:
        return False
    kinds = {type(child) for child in children}
    if kinds == {nn.ModuleList}:  # each list holds an attention and a feed-forward, or is a stage of layers
        return len({len(child) for child in children}) == 1 and len(children[0]) <= 4 and all(map(is_layer, children))
    return len(kinds) < max(2, min(5, len(children))) and all(map(is_layer, children))


def without_nested(stacks: Dict[str, List[Element]]) -> Dict[str, List[Element]]:
    """Returns the innermost stacks, because stages contain layers. The exception is a list of lists that are not
    called. It holds the parts of each layer, and its inner stacks are left out."""
    dropped = set()
    for name, elements in stacks.items():
        inner = {other for other in stacks if other != name and any(is_within(other, e.path) for e in elements)}
        holders = [e for e in elements if any(is_within(other, e.path) for other in inner)]
        are_parts = all(type(e.module) is nn.ModuleList for e in elements) or \
            any(attends_outside(e, inner) for e in holders)
        if inner:
            dropped |= inner if are_parts or 2 * len(holders) < len(elements) else {name}
    return {name: elements for name, elements in stacks.items() if name not in dropped}


def attends_outside(element: Element, lists: Set[str]) -> bool:
    """Whether a layer has an attention outside of its lists, so that these lists are its parts."""
    for name, module in element.module.named_modules():
        path = f"{element.path}.{name}"
        is_beside = name and not any(is_within(path, other) or is_within(other, path) for other in lists)
        if is_beside and (ATTENTION.search(name) or ATTENTION.search(type(module).__name__)):
            return True
    return False


def repeated_modules(model: nn.Module, stacks: Dict[str, List[Element]]) -> Dict[str, List[Element]]:
    """Finds layers that are separate attributes, such as block0 and block1."""
    if stacks:
        return {}
    found: Dict[str, List[Element]] = {}
    for name, module in model.named_modules():
        kinds: Dict[type, List[Element]] = {}
        for child, m in module.named_children():
            if is_layer(m) and any(map(is_projection, m.modules())) and not is_norm(child, m):
                kinds.setdefault(type(m), []).append(Element(f"{name}.{child}" if name else child, m))
        for elements in kinds.values():
            if len(elements) > 1 and not any(e.path.startswith(f.path + ".") for e in elements
                                             for others in found.values() for f in others):
                found[f"{elements[0].path} to {elements[-1].path}"] = elements
    return found


def single_blocks(model: nn.Module) -> List[Element]:
    """Finds blocks that are not in a list, such as one that is called repeatedly. They are the innermost modules with
    norms, an attention and a feed-forward."""
    found = [Element(name, m) for name, m in model.named_modules() if name and is_block(name, m)]
    return [e for e in found if not any(other.path.startswith(e.path + ".") for other in found)]


def is_block(name: str, module: nn.Module) -> bool:
    inner = [(n, m) for n, m in module.named_modules() if n]
    is_attention = any(map(ATTENTION.search, (name.rpartition(".")[2], type(module).__name__)))
    holds_attention = any(ATTENTION.search(n) or ATTENTION.search(type(m).__name__) for n, m in inner)
    projections = sum(is_projection(m) for _, m in inner)
    return not is_attention and any(is_norm(n, m) for n, m in inner) and projections >= (2 if holds_attention else 6)


def element_of(name: str, elements: Dict[str, int]) -> Optional[int]:
    """Returns the index of the layer that contains a module, or None."""
    while name:
        if name in elements:
            return elements[name]
        name = parent_of(name)
    return elements.get("")


# -- Runs --


@dataclass
class LayerRun:
    """One run of a layer in a forward pass."""
    number: int  # counted in the order of the pass
    element: Element
    is_next: bool  # whether it is in the same list as the previous layer
    begin: int  # the index of its first event
    inputs: List[Value]  # its arguments, or those of its first module if it is not called itself
    inputs_at: int  # the index of the event with these arguments


class RunFinder:
    """Finds the runs of layers in the events of a pass, and the place of each event."""

    def __init__(self, elements: List[Element]) -> None:
        self._elements = elements
        self._by_path = {element.path: i for i, element in enumerate(elements)}
        self.runs: List[LayerRun] = []
        self.places: List[Place] = []
        self._called: Set[int] = set()  # elements that were called themselves, not module by module
        self._place_of: Dict[int, Place] = {}  # the place of each element's last run
        self._current: Optional[int] = None  # the element that ran last

    def find(self, events: List[Event]) -> RunFinder:
        place = Place()
        outer: List[Tuple[str, Place]] = []  # modules that run, and the places around them
        for index, event in enumerate(events):
            if isinstance(event, Enter):
                outer.append((event.name, place))
                place = self._enter(event, index, place)
            self.places.append(place)
            if isinstance(event, Leave):
                while outer:  # modules that raised an exception have no Leave
                    name, place = outer.pop()
                    if name == event.name:
                        break
        return self

    def _enter(self, event: Enter, index: int, place: Place) -> Place:
        if place.layer is not None:
            if not self.runs[-1].inputs:
                self.runs[-1].inputs, self.runs[-1].inputs_at = event.inputs, index
            return place
        element = element_of(event.name, self._by_path)
        if element is None:
            return place
        is_whole = event.name == self._elements[element].path
        if not is_whole and element in self._called:
            return place  # a module that is shared with another layer
        if is_whole:
            self._called.add(element)
        if is_whole or element != self._current:
            self._begin(event, element, index)
        return self._place_of[element]

    def _begin(self, event: Enter, element: int, index: int) -> None:
        here = self._elements[element]
        is_next = bool(self.runs) and parent_of(self.runs[-1].element.path) == parent_of(here.path)
        self.runs.append(LayerRun(len(self.runs), here, is_next, index, event.inputs, index))
        self._place_of[element] = Place(len(self.runs) - 1, here.path)
        self._current = element
