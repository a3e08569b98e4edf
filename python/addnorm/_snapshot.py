"""Runs a function on a model, and restores everything that is reachable from the model."""

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
except ImportError:  # PyTorch works without NumPy
    _NUMPY_GENERATORS = _NUMPY_ARRAYS = _NUMPY = ()

from ._model import eager
from ._modes import Surroundings
from ._sharded import gathers_parameters
from ._undo import Result, Undo, run_undone

Restore = Callable[[], object]


def unchanged(function: Callable[[], Result], *roots: Any) -> Result:
    """Returns function(), which may compute gradients. Afterwards, everything reachable from the roots, the random
    generators and PyTorch's modes are restored, even if function raises or is interrupted.

    While function runs, compiled modules run uncompiled, each `.grad` is None, and no hook is called after a gradient
    has been accumulated, because such a hook may run an optimizer.
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
    """The states of random generators: those of Python, NumPy and PyTorch, and the given ones."""

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
    """Returns the random generators that are reachable from the roots."""
    return [thing for thing in _Reach(roots).things if _is(thing, _GENERATORS)]


class Snapshot:
    """The state of everything reachable from the roots: tensors, attributes, items, closures and random generators.

    All tensors are copied, which takes memory for a second copy of the parameters. Version counters would not suffice:
    a write through `.data`, common when weights are clipped, does not increase them. Values are written back only where
    their bits differ. This does not increase the counters either, so that a later backward still works.

    Attributes and items are followed, also those of classes. Objects held by hooks or functions are not followed,
    because they are an observer's state. Objects of PyTorch, NumPy and Python's library outside of a model are not
    followed either: optimizers, data sets, threads and files. The position of an iterator and the memory of other
    extensions cannot be restored.
    """

    def __init__(self, *roots: Any) -> None:
        gathering = [module for root in roots if _is(root, nn.Module) for module in root.modules()
                     if gathers_parameters(module)]
        _spread(gathering)  # else the snapshot would contain parameters whose memory is freed
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
        """Restores everything that it can, then raises the error of the rest."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            self._undo.close()
        self._tensors.clear()  # a stored error refers to this frame, which must not keep the copies


def _spread(modules: list[Any]) -> None:
    """Makes modules of fully_shard free the parameters that they have gathered."""
    for module in modules:
        module.reshard()


# -- Traversal --

_OUTSIDE = frozenset({*getattr(sys, "stdlib_module_names", ()), "torch", "numpy", "lightning", "pytorch_lightning"})
_ENTERED = frozenset("_random _weakrefset abc argparse array builtins collections contextlib dataclasses functools "
                     "random types typing weakref".split())
_ATOMS = (type, types.ModuleType, types.CodeType, str, bytes, int, float, complex, type(None), range, slice,
          torch.dtype, torch.device, torch.Size)
_CONTAINERS = collections.OrderedDict, dict, list, set, collections.deque
_PLAIN = frozenset({tuple, frozenset, dict, list, set, collections.deque})  # have no attributes
_GENERATORS = torch.Generator, random.Random, *_NUMPY_GENERATORS
_KNOWN = (Tensor, nn.Module, tuple, frozenset, *_CONTAINERS, *_GENERATORS, bytearray, array.array, *_NUMPY)


def _is(thing: Any, kinds: Any) -> bool:
    """Whether an object has one of these types. isinstance() would trust the `__class__` of a proxy."""
    return issubclass(type(thing), kinds)


def _package(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or "builtins").partition(".")[0]


class _Reach:
    """The objects reachable from some roots, each once, and the classes that a model defines."""

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
        except ValueError:  # the cell has no value yet
            continue


def _hooks(thing: Any) -> Iterator[dict[Any, Any]]:
    """Returns the dictionaries of an object's hooks."""
    if _is(thing, nn.Module):
        candidates: Any = (value for name, value in vars(thing).items() if "_hooks" in name)
    elif _is(thing, Tensor):
        candidates = thing._backward_hooks, getattr(thing, "_post_accumulate_grad_hooks", None)
    else:
        candidates = ()
    return (hooks for hooks in candidates if isinstance(hooks, dict))


def _attributes(thing: Any) -> Any:
    """Returns the dictionary of an object's attributes, or None."""
    try:
        found = object.__getattribute__(thing, "__dict__")
        return found if found is object.__getattribute__(thing, "__dict__") else None  # a property may compute it
    except Exception:
        return None


def _slots(thing: Any) -> dict[Any, Any]:
    """Returns the values of an object's `__slots__`."""
    found = {}
    for slot in _slots_of_class(type(thing)):
        try:
            found[slot] = slot.__get__(thing)
        except AttributeError:  # the slot has no value
            continue
    return found


@functools.lru_cache(maxsize=1024)
def _slots_of_class(kind: type) -> list[Any]:
    return [slot for own in _own_classes(kind) for slot in vars(own).values()
            if isinstance(slot, types.MemberDescriptorType)]


@functools.lru_cache(maxsize=1024)
def _container(kind: type) -> Any:
    """Returns the type in _CONTAINERS that a type derives from."""
    return next(container for container in _CONTAINERS if issubclass(kind, container))


def _items(thing: Any) -> list[Any]:
    """Returns the items of a container, for a dictionary each key followed by its value.
    Calls no method of a subclass."""
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
    """Whether a tensor is of a subclass that consists of other tensors."""
    return hasattr(type(tensor), "__tensor_flatten__")


def _script_attributes(module: Any) -> dict[str, Any]:
    kind = getattr(module, "_concrete_type", None)  # a frozen module lacks it
    return {} if kind is None else {name: module._c.getattr(name) for name in kind.get_attributes()}


# -- State of one object --


def _keep(thing: Any) -> Iterator[Restore]:
    """Yields functions that restore an object. Each may be called several times."""
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
    """Whether a NumPy array is writable and not a file."""
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
    """The memory of a tensor, its values, and its autograd state."""

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
        if self._is_leaf and not tensor.is_leaf and not tensor._is_view():  # a value was written with its graph
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
    """Returns the address and the layout of a tensor's numbers, or None if it has no address."""
    if _is_composite(tensor):
        return None
    try:
        numbers = tensor._values() if tensor.is_sparse else tensor
        return numbers.data_ptr(), tensor.size(), numbers.stride(), numbers.dtype, numbers.device
    except (RuntimeError, NotImplementedError):
        return None


def has_memory(tensor: Tensor) -> bool:
    """Whether a tensor has memory of its own: it is not made of other tensors, and FSDP has not freed it."""
    if _is_composite(tensor):
        return False
    try:
        storage = getattr(tensor, "untyped_storage", tensor.storage)()
        last = tensor.storage_offset() + sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride()))
        return 0 < tensor.numel() and (last + 1) * tensor.element_size() <= storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return False


def _without_repetition(tensor: Tensor) -> Tensor:
    """Returns a view without the elements that expand() repeats."""
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
