"""Runs a function on a model, and leaves everything that is reachable from the model as it was."""

from __future__ import annotations

import array
import collections
import copy
import functools
import random
import sys
import types
import weakref
from typing import Any, Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

try:
    import numpy
    _NUMPY_GENERATORS: tuple[type, ...] = numpy.random.BitGenerator, numpy.random.RandomState
    _NUMPY_ARRAYS: tuple[type, ...] = (numpy.ndarray,)
    _NUMPY: tuple[type, ...] = *_NUMPY_ARRAYS, *_NUMPY_GENERATORS, numpy.random.Generator
except ImportError:  # PyTorch works without it
    _NUMPY_GENERATORS = _NUMPY_ARRAYS = _NUMPY = ()

from ._model import eager
from ._modes import Surroundings
from ._sharded import gathers_parameters
from ._undo import Result, Undo, run_undone

Restore = Callable[[], object]


def unchanged(function: Callable[[], Result], *roots: Any) -> Result:
    """Returns function(), which may compute gradients. Everything that the roots lead to is afterwards as it was, and so
    are the random generators and PyTorch's modes, also if function raises or is interrupted.

    Within function compiled modules run as they were written, each `.grad` is None, and no hook is called when a
    gradient has been accumulated: an optimizer may stand there.
    """
    surroundings = Surroundings()

    def run() -> Result:
        with torch.inference_mode(False), torch.enable_grad(), eager():
            snapshot = Snapshot(*roots)

            def run_without_gradients() -> Result:
                snapshot.hide_gradients()
                return function()

            return run_undone(run_without_gradients, snapshot.restore)

    return run_undone(run, surroundings.restore)


class RandomState:
    """The state of random generators: those of Python, NumPy and PyTorch, and `own` ones."""

    def __init__(self, own: Iterable[Any] = ()) -> None:
        self._states: list[tuple[Callable[[Any], object], Any]] = [
            (random.setstate, random.getstate()), (torch.set_rng_state, torch.get_rng_state())]
        if _NUMPY:
            self._states.append((numpy.random.set_state, numpy.random.get_state()))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._states.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
        if hasattr(torch, "mps") and torch.backends.mps.is_available():
            self._states.append((torch.mps.set_rng_state, torch.mps.get_rng_state()))
        self._restores = [_keep_generator(generator) for generator in own]

    def restore(self) -> None:
        for set_state, state in self._states:
            set_state(state)
        for restore in self._restores:
            restore()


def find_generators(*roots: Any) -> list[Any]:
    """Returns the random generators that the roots lead to."""
    return [thing for thing in _Reach(roots).things if _is(thing, _GENERATORS)]


class Snapshot:
    """The state of everything that the roots lead to: tensors, attributes, items, closures, random generators.

    All tensors are copied, so this takes memory for a second copy of the parameters. Version counters would not tell
    which were changed: a write through `.data`, as weights are often clipped, raises none. Values are written back only
    where their bits differ, and raise no counter either, so that a backward that is still to come can go on.

    Followed are attributes and items, also those of classes. Not followed are what a hook or a function holds, which is
    the state of an observer, and objects of PyTorch, NumPy and Python's library that are no part of a model: optimizers,
    data sets, threads, files. The position of an iterator and the memory of other extensions cannot be restored.
    """

    def __init__(self, *roots: Any) -> None:
        gathering = [module for root in roots if _is(root, nn.Module) for module in root.modules()
                     if gathers_parameters(module)]
        _spread(gathering)  # so that the snapshot has no parameters whose memory is given back
        reach, self._undo = _Reach(roots), Undo()
        self._undo.callback(RandomState().restore)
        with torch._C.DisableTorchFunction():
            self._tensors = [_TensorState(thing) for thing in reach.things if _is(thing, Tensor)]
        for state in self._tensors:
            self._undo.callback(state.restore)
        for kind in reach.classes:
            self._undo.callback(_keep_class(kind))
        for thing in reach.things:
            for restore in _keep(thing):
                self._undo.callback(restore)
        self._undo.callback(_spread, gathering)

    def hide_gradients(self) -> None:
        for state in self._tensors:
            state.hide_gradient()

    def restore(self) -> None:
        """Restores all that it can, and then raises the error of what it could not."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            self._undo.close()
        self._tensors.clear()  # an error that is kept has this frame, which must not keep the copies


def _spread(modules: list[Any]) -> None:
    """Has modules of fully_shard give back the parameters that they have gathered."""
    for module in modules:
        module.reshard()


# -- What the roots lead to --

_OUTSIDE = frozenset({*getattr(sys, "stdlib_module_names", ()), "torch", "numpy", "lightning", "pytorch_lightning"})
_ENTERED = frozenset("_random _weakrefset abc argparse array builtins collections contextlib dataclasses functools "
                     "random types typing weakref".split())
_ATOMS = (type, types.ModuleType, types.CodeType, str, bytes, int, float, complex, type(None), range, slice,
          torch.dtype, torch.device, torch.Size)
_CONTAINERS = collections.OrderedDict, dict, list, set, collections.deque
_PLAIN = frozenset({tuple, frozenset, dict, list, set, collections.deque})  # without attributes
_GENERATORS = torch.Generator, random.Random, *_NUMPY_GENERATORS
_KNOWN = (Tensor, nn.Module, tuple, frozenset, *_CONTAINERS, *_GENERATORS, bytearray, array.array, *_NUMPY)


def _is(thing: Any, kinds: Any) -> bool:
    """Whether it is of these types. isinstance() would believe the `__class__` of a proxy."""
    return issubclass(type(thing), kinds)


def _package(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or "builtins").partition(".")[0]


class _Reach:
    """The things that some roots lead to, each once, and the classes that a model brings along."""

    def __init__(self, roots: tuple[Any, ...]) -> None:
        is_entered: dict[type, bool] = {}
        found: dict[int, Any] = {}
        self.classes: dict[type, None] = {}
        waiting = list(roots)
        while waiting:
            thing = waiting.pop()
            kind = type(thing)
            if kind not in is_entered:
                is_entered[kind] = _enters(kind)
                if is_entered[kind]:
                    for own in _own_classes(kind):
                        self.classes[own] = None
                        waiting += _class_attributes(own).values()
            if is_entered[kind] and id(thing) not in found:
                found[id(thing)] = thing
                found.update((id(hooks), hooks) for hooks in _hooks(thing))
                waiting += [part for part in _parts(thing) if is_entered.get(type(part), True)]
        self.things = list(found.values())


def _enters(kind: type) -> bool:
    return not issubclass(kind, _ATOMS) and (issubclass(kind, _KNOWN) or all(
        _package(base) in _ENTERED or _package(base) not in _OUTSIDE for base in kind.__mro__))


def _own_classes(kind: type) -> Iterator[type]:
    return (own for own in kind.__mro__ if _package(own) not in _OUTSIDE)


def _class_attributes(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}


def _parts(thing: Any) -> Iterator[Any]:
    if _is(thing, types.FunctionType):
        yield from (value for value in _closure(thing) if _is(value, (Tensor, nn.Module)))
        return
    if _is(thing, (types.MethodType, types.BuiltinMethodType)):
        yield thing.__self__
    elif _is(thing, functools.partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif _is(thing, weakref.ref):
        yield thing()
    elif _is(thing, Tensor):
        yield from _parts_of_tensor(thing)
    elif _is(thing, (tuple, frozenset)):
        yield from (tuple if _is(thing, tuple) else frozenset).__iter__(thing)
    elif _is(thing, _CONTAINERS):
        yield from _items(thing)
    elif _is(thing, _NUMPY_ARRAYS) and thing.dtype == object:
        yield from thing.flat
    elif _is(thing, _NUMPY) and hasattr(thing, "bit_generator"):
        yield thing.bit_generator
    elif _is(thing, torch.jit.ScriptModule):
        yield from (*thing.children(), *thing.parameters(recurse=False), *thing.buffers(recurse=False))
        yield from _script_attributes(thing).values()
    if type(thing) not in _PLAIN:
        yield _attributes(thing)
        yield from _slots(thing).values()


def _closure(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it has no value yet
            continue


def _hooks(thing: Any) -> Iterator[dict[Any, Any]]:
    """The dictionaries of its hooks."""
    if _is(thing, nn.Module):
        candidates: Any = (value for name, value in vars(thing).items() if "_hooks" in name)
    elif _is(thing, Tensor):
        candidates = thing._backward_hooks, getattr(thing, "_post_accumulate_grad_hooks", None)
    else:
        candidates = ()
    return (hooks for hooks in candidates if isinstance(hooks, dict))


def _attributes(thing: Any) -> Any:
    """The dictionary of its attributes, or None."""
    try:
        found = object.__getattribute__(thing, "__dict__")
        return found if found is object.__getattribute__(thing, "__dict__") else None  # a property may make it
    except Exception:
        return None


def _slots(thing: Any) -> dict[Any, Any]:
    """The values of its `__slots__`."""
    found = {}
    for slot in _slots_of_class(type(thing)):
        try:
            found[slot] = slot.__get__(thing)
        except AttributeError:  # it has no value
            continue
    return found


@functools.lru_cache(maxsize=1024)
def _slots_of_class(kind: type) -> list[Any]:
    return [slot for own in _own_classes(kind) for slot in vars(own).values()
            if isinstance(slot, types.MemberDescriptorType)]


@functools.lru_cache(maxsize=1024)
def _container(kind: type) -> Any:
    """The one of _CONTAINERS that a type is."""
    return next(container for container in _CONTAINERS if issubclass(kind, container))


def _items(thing: Any) -> list[Any]:
    """The items of a container. A dictionary gives each key and then its value. No method of a subclass is called."""
    kind = _container(type(thing))
    if issubclass(kind, dict):
        return [part for item in kind.items(thing) for part in item]
    return list(kind.__iter__(thing))


def _parts_of_tensor(tensor: Tensor) -> Iterator[Any]:
    with torch._C.DisableTorchFunction():
        if tensor.is_sparse:
            yield tensor._values()
        elif "sparse" in str(tensor.layout):
            yield tensor.values()
    if _is_composite(tensor):
        yield from (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])


def _is_composite(tensor: Tensor) -> bool:
    """Whether it is of a subclass that is made of other tensors."""
    return hasattr(type(tensor), "__tensor_flatten__")


def _script_attributes(module: Any) -> dict[str, Any]:
    kind = getattr(module, "_concrete_type", None)  # a frozen module has none
    return {} if kind is None else {name: module._c.getattr(name) for name in kind.get_attributes()}


# -- What is kept of a thing --


def _keep(thing: Any) -> Iterator[Restore]:
    """Functions that restore it. All may be called several times."""
    if type(thing) not in _PLAIN and not _is(thing, types.FunctionType):
        attributes, slots = _attributes(thing), _slots(thing)
        if attributes is not None:
            yield functools.partial(_restore_object, thing, type(thing), attributes)
        if slots:
            yield functools.partial(_restore_slots, thing, slots)
    if _is(thing, _CONTAINERS):
        yield functools.partial(_restore_items, thing, _items(thing))
    elif _is(thing, _GENERATORS):
        yield _keep_generator(thing)
    elif _is(thing, (bytearray, array.array)) or _is(thing, _NUMPY_ARRAYS) and _is_written_in_memory(thing):
        yield functools.partial(_restore_array, thing, copy.copy(thing))
    elif _is(thing, torch.jit.ScriptModule):
        yield functools.partial(_restore_script, thing, _script_attributes(thing))


def _restore_object(thing: Any, kind: type, attributes: dict[str, Any]) -> None:
    if type(thing) is not kind:
        object.__setattr__(thing, "__class__", kind)
    if _attributes(thing) is not attributes:
        object.__setattr__(thing, "__dict__", attributes)


def _restore_slots(thing: Any, saved: dict[Any, Any]) -> None:
    found = _slots(thing)
    for slot in found.keys() - saved.keys():
        slot.__delete__(thing)
    for slot, value in saved.items():
        if slot not in found or found[slot] is not value:
            slot.__set__(thing, value)


def _restore_items(thing: Any, saved: list[Any]) -> None:
    if list(map(id, _items(thing))) == list(map(id, saved)):
        return
    kind = _container(type(thing))
    kind.clear(thing)
    if issubclass(kind, dict):
        for key, value in zip(saved[::2], saved[1::2]):
            kind.__setitem__(thing, key, value)
    else:
        (kind.update if kind is set else kind.extend)(thing, saved)


def _is_written_in_memory(thing: Any) -> bool:
    """Whether an array of NumPy can be written, and is not a file."""
    base = thing
    while _is(base, _NUMPY_ARRAYS):
        if _is(base, numpy.memmap):
            return False
        base = base.base
    return bool(thing.flags.writeable)


def _restore_array(thing: Any, saved: Any) -> None:
    if _is(thing, bytearray):
        thing[:] = saved
    elif not _have_same_bytes(thing, saved):
        thing[... if _is(thing, _NUMPY_ARRAYS) else slice(None)] = saved


def _have_same_bytes(thing: Any, saved: Any) -> bool:
    if _is(thing, _NUMPY_ARRAYS) and thing.size and thing.flags.c_contiguous and saved.flags.c_contiguous and \
            not thing.dtype.hasobject:
        return bool(numpy.array_equal(*(numpy.asarray(a).reshape(-1).view("u1") for a in (thing, saved))))
    return bool(thing.tobytes() == saved.tobytes())


def _restore_script(module: Any, saved: dict[str, Any]) -> None:
    for name, value in saved.items():
        found = module._c.getattr(name)
        if found is not value and not (isinstance(value, (int, float, str)) and found == value):
            module._c.setattr(name, value)


def _keep_generator(thing: Any) -> Restore:
    if _is(thing, torch.Generator):
        return functools.partial(thing.set_state, thing.get_state())
    if _is(thing, random.SystemRandom):  # it has no state
        return lambda: None
    if _is(thing, random.Random):
        return functools.partial(thing.setstate, thing.getstate())
    if hasattr(thing, "get_state"):
        return functools.partial(thing.set_state, thing.get_state())
    return functools.partial(setattr, thing, "state", thing.state)


def _keep_class(kind: type) -> Restore:
    saved = _class_attributes(kind)

    def restore() -> None:
        found = _class_attributes(kind)
        for name in found.keys() - saved.keys():
            type.__delattr__(kind, name)
        for name, value in saved.items():
            if name not in found or found[name] is not value:
                type.__setattr__(kind, name, value)
    return restore


# -- Tensors --


class _TensorState:
    """The memory of a tensor, the values there, and what autograd knows of it."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._is_leaf, self._requires_grad = tensor, tensor.is_leaf, tensor.requires_grad
        self._gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
        self._hooks = tensor._backward_hooks
        self._alias, self._place = tensor.data, _place_of(tensor)
        self._values = _without_repetition(self._alias) if has_memory(tensor) else None
        self._saved = None if self._values is None else self._values.clone()

    def hide_gradient(self) -> None:
        if self._gradient is not None:
            self._tensor.grad = None
        hooks = getattr(self._tensor, "_post_accumulate_grad_hooks", None)
        if hooks:
            hooks.clear()

    def restore(self) -> None:
        tensor = self._tensor
        if self._is_leaf and not tensor.is_leaf and not tensor._is_view():  # something was written with its graph
            tensor.detach_()
        if _place_of(tensor) != self._place:
            tensor.data = self._alias
        if self._saved is not None and has_memory(self._values) and not _have_same_bits(self._values, self._saved):
            with torch.inference_mode(self._values.is_inference()):
                self._values.copy_(self._saved)
        if tensor._backward_hooks is not self._hooks:
            tensor._backward_hooks = self._hooks
        if tensor.is_leaf:
            if tensor.requires_grad != self._requires_grad:
                tensor.requires_grad_(self._requires_grad)
            if tensor.grad is not self._gradient:
                tensor.grad = self._gradient


def _place_of(tensor: Tensor) -> Any:
    """The address and the layout of its numbers, or None if it has no address."""
    if _is_composite(tensor):
        return None
    try:
        numbers = tensor._values() if tensor.is_sparse else tensor
        return numbers.data_ptr(), tensor.size(), numbers.stride(), numbers.dtype, numbers.device
    except (RuntimeError, NotImplementedError):
        return None


def has_memory(tensor: Tensor) -> bool:
    """Whether its numbers are in memory of its own: not of a tensor that is made of others, or was freed by FSDP."""
    if _is_composite(tensor):
        return False
    try:
        storage = getattr(tensor, "untyped_storage", tensor.storage)()
        last = tensor.storage_offset() + sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride()))
        return 0 < tensor.numel() and (last + 1) * tensor.element_size() <= storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return False


def _without_repetition(tensor: Tensor) -> Tensor:
    """One of the elements that expand() shows several times."""
    for axis, step in enumerate(tensor.stride()):
        if step == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _have_same_bits(a: Tensor, b: Tensor) -> bool:
    if a.is_quantized:
        return torch.equal(a, b)
    if a.is_meta:
        return True
    if a.is_complex():
        a, b = (torch.view_as_real(t.resolve_conj()) for t in (a, b))
    kind = _INTEGERS[a.element_size()]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))
