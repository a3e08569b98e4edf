"""addnorm.check restores everything that is reachable from a model, whatever the model's forward writes."""

import collections
import copy
import ctypes
import dataclasses
import gc
import queue
import random
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import types
import weakref

import addnorm
import numpy
import pytest

torch = pytest.importorskip("torch")
import small_models  # noqa: E402
from addnorm._snapshot import unchanged  # noqa: E402
from torch import nn  # noqa: E402

WIDTH = small_models.WIDTH


def state_of(*roots):
    """Returns identity, type and contents of everything reachable from the roots, read without addnorm. Keeps the
    objects alive, so that no other object gets the same id."""
    seen, lines = {}, []

    def visit(thing, path):
        lines.append((path, id(thing) if isinstance(thing, (torch.Tensor, nn.Module, list, dict)) else None, type(thing)))
        if id(thing) in seen or isinstance(thing, (type, types.FunctionType, types.ModuleType, types.MethodType)):
            return
        seen[id(thing)] = thing
        if isinstance(thing, torch.Tensor):
            lines.append((path, bits(thing), thing.requires_grad, thing.is_leaf))
            if thing.is_leaf:
                lines.append((path, id(thing.grad), None if thing.grad is None else bits(thing.grad)))
            lines.append((path, len(thing._backward_hooks or ())))
        elif isinstance(thing, dict):
            lines.append((path, [repr(key) for key in thing]))
            for key, value in thing.items():
                visit(value, (*path, key))
        elif isinstance(thing, (list, tuple, collections.deque)):
            lines.append((path, len(thing)))
            for i, value in enumerate(thing):
                visit(value, (*path, i))
        elif isinstance(thing, torch.Generator):
            lines.append((path, thing.get_state().tolist()))
        elif isinstance(thing, random.Random):
            lines.append((path, thing.getstate()))
        elif isinstance(thing, numpy.random.Generator):
            lines.append((path, repr(thing.bit_generator.state)))
        elif isinstance(thing, (set, bytearray, int, float, str, bytes, type(None))):
            lines.append((path, repr(thing)))
        elif isinstance(thing, numpy.ndarray):
            lines.append((path, thing.tobytes()))
        elif isinstance(thing, torch.jit.ScriptModule):
            lines.append((path, thing.calls, bits(thing.total)))
        elif isinstance(thing, weakref.ref):
            visit(thing(), path)
        else:
            for kind in type(thing).__mro__:
                for name in vars(kind).get("__slots__", ()):
                    visit(getattr(thing, name, "no value"), (*path, name))
            if isinstance(thing, Layer):
                visit(Layer.seen, (*path, "seen"))
                lines.append((path, Layer.calls))
        if hasattr(thing, "__dict__"):
            visit(vars(thing), (*path, "__dict__"))

    for i, root in enumerate(roots):
        visit(root, (i,))
    lines.append((torch.get_rng_state().tolist(), random.getstate(), repr(numpy.random.get_state())))
    return lines, seen


def bits(tensor):
    with torch._C.DisableTorchFunction():  # for parameters of lazy layers
        values = tensor.detach().clone()
    return (values.to_dense() if values.layout is not torch.strided else values).numpy().tobytes()


def assert_same(before, after):
    for one, other in zip(before[0], after[0]):
        assert one == other
    assert len(before[0]) == len(after[0])


class Slotted:
    __slots__ = "n", "late"

    def __init__(self):
        self.n = 0

    def change(self):
        self.n, self.late = self.n + 1, "now it has a value"


class Uncopyable:
    """An object with a lock that cannot be copied."""

    def __init__(self):
        self.lock, self.items = threading.Lock(), []

    def __deepcopy__(self, memo):
        raise TypeError("it cannot be copied")

    __copy__ = __reduce_ex__ = __deepcopy__


@dataclasses.dataclass(frozen=True)
class Frozen:
    cache: dict


class Layer(nn.Module):
    """A layer whose class counts its calls and stores inputs."""

    calls = 0
    seen = {}

    def forward(self, x):
        type(self).calls += 1
        self.seen[self.calls] = x.detach()
        return x


class Scripted(nn.Module):
    calls: int

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.total += x.sum()
        return x


class Restless(small_models.Decoder):
    """A decoder whose forward also calls change(self, x), on the result of prepare(self)."""

    def __init__(self, prepare, change):
        torch.manual_seed(0)
        super().__init__(layers=2)
        self.change = change
        prepare(self)

    def forward(self, tokens):
        with torch.no_grad():
            x = self.embedding(tokens)
        self.change(self, x)
        return super().forward(tokens)


def has(**attributes):
    """Returns a function that sets attributes, created anew for each model."""
    return lambda m: [setattr(m, name, make()) for name, make in attributes.items()]


def without_gradients(change):
    def without(m, x):
        with torch.no_grad():
            change(m, x)
    return without


def add_buffer(make):
    return lambda m: m.register_buffer("b", make())


def prepare_batch_norm(m):
    m.norm = nn.BatchNorm1d(WIDTH)


def prepare_generator(m):
    m.generator = torch.Generator().manual_seed(1)


def prepare_cycle(m):
    m.me, m.parent, m.calls_of = [m], weakref.ref(m), {}
    m.calls_of[m] = 0
    m.me.append(m.me)


def prepare_tied(m):
    m.head.weight = m.embedding.weight
    m.view = m.embedding.weight.data[:2]


def prepare_gradient(m):
    for p in m.parameters():
        p.grad = torch.ones_like(p)


def replace_layer(m, x):
    m.layers[1] = copy.deepcopy(m.layers[1])
    m.added = nn.Linear(2, 2)


def freeze(m, x):
    m.embedding.weight.requires_grad_(False)
    m.layers[0].eval()


def add_hooks(m, x):
    m.layers[0].register_forward_hook(lambda *_: None)
    m.final_norm.weight.register_hook(lambda g: None)


def remember_with_graph(m, x):
    m.b.copy_(m.embedding.weight.sum(0))


NAN = float("nan")
HABITS = {
    "BatchNorm's statistics": (prepare_batch_norm, lambda m, x: m.norm(x.transpose(1, 2))),
    "a parameter clamped": (has(), without_gradients(lambda m, x: m.head.weight.clamp_(-.05, .05))),
    "a parameter clamped past autograd": (has(), lambda m, x: m.head.weight.data.clamp_(-.05, .05)),
    "a parameter with other memory": (has(), lambda m, x: setattr(m.head.weight, "data", m.head.weight.data * 2)),
    "a parameter replaced": (has(), lambda m, x: setattr(m.head, "bias", nn.Parameter(torch.ones(m.head.out_features)))),
    "an embedding's max_norm": (has(e=lambda: nn.Embedding(small_models.VOCABULARY, 4, max_norm=.1)),
                                lambda m, x: m.e(small_models.tokens())),
    "a buffer written": (add_buffer(lambda: torch.zeros(3)), lambda m, x: m.b.add_(1)),
    "a buffer assigned": (add_buffer(lambda: torch.zeros(3)), lambda m, x: setattr(m, "b", m.b + 1)),
    "a buffer registered": (has(), lambda m, x: m.register_buffer("new", torch.zeros(3))),
    "a buffer resized": (add_buffer(lambda: torch.zeros(3)), lambda m, x: m.b.resize_(5).fill_(1)),
    "a buffer of 0": (add_buffer(lambda: torch.zeros(3)), lambda m, x: m.b.neg_()),
    "a buffer of NaN": (add_buffer(lambda: torch.tensor([1., NAN])), lambda m, x: m.b.mul_(2)),
    "a buffer that was expanded": (add_buffer(lambda: torch.zeros(1).expand(3)), lambda m, x: m.b._base.add_(1)),
    "a buffer of complex numbers": (add_buffer(lambda: torch.zeros(3, dtype=torch.complex128)), lambda m, x: m.b.add_(1j)),
    "a sparse buffer": (add_buffer(lambda: torch.eye(3).to_sparse()), lambda m, x: m.b.mul_(2)),
    "a buffer with a graph": (add_buffer(lambda: torch.zeros(WIDTH)), remember_with_graph),
    "a view of a parameter that is tied": (prepare_tied, lambda m, x: m.view.add_(1)),
    "spectral_norm": (lambda m: nn.utils.spectral_norm(m.head), lambda m, x: m.head(x)),
    "spectral_norm as a parametrization": (lambda m: nn.utils.parametrizations.spectral_norm(m.head),
                                           lambda m, x: m.head(x)),
    "weight_norm": (lambda m: nn.utils.weight_norm(m.head), lambda m, x: m.head(x)),
    "a lazy layer": (has(lazy=lambda: nn.LazyLinear(3)), lambda m, x: m.lazy(x)),
    "a scripted part": (has(part=lambda: torch.jit.script(Scripted())), lambda m, x: m.part(x)),
    "a generator of PyTorch": (prepare_generator, lambda m, x: torch.rand(2, generator=m.generator)),
    "a generator of Python": (has(g=lambda: random.Random(3)), lambda m, x: m.g.random()),
    "a generator of NumPy": (has(g=lambda: numpy.random.default_rng(3)), lambda m, x: m.g.random()),
    "the global generators": (has(), lambda m, x: (torch.rand(1), random.random(), numpy.random.rand())),
    "a counter": (has(n=lambda: 0), lambda m, x: setattr(m, "n", m.n + 1)),
    "a new attribute": (has(), lambda m, x: setattr(m, "last", x)),
    "a deleted attribute": (has(n=lambda: 0), lambda m, x: vars(m).pop("n", None)),
    "a list of a part": (lambda m: has(log=list)(m.layers[0]), lambda m, x: m.layers[0].log.append(x)),
    "a cache of tensors": (has(cache=lambda: {"k": [torch.zeros(2)]}),
                           lambda m, x: (m.cache["k"][0].add_(1), m.cache["k"].append(x), m.cache.update(v=x))),
    "an ordered dictionary": (has(d=lambda: collections.OrderedDict(a=1, b=2)), lambda m, x: m.d.move_to_end("a")),
    "other containers": (has(c=collections.Counter, d=lambda: collections.defaultdict(list), s=set,
                             q=lambda: collections.deque([0], 2), t=lambda: ([],), b=lambda: bytearray(2)),
                         lambda m, x: (m.c.update("a"), m.d["a"].append(1), m.s.add(1), m.q.append(1), m.t[0].append(1),
                                       m.b.append(1))),
    "an object": (has(o=lambda: types.SimpleNamespace(inner=types.SimpleNamespace(n=0))),
                  lambda m, x: setattr(m.o.inner, "n", m.o.inner.n + 1)),
    "an object with slots": (has(o=Slotted), lambda m, x: m.o.change()),
    "an object that cannot be copied": (has(o=Uncopyable), lambda m, x: m.o.items.append(x)),
    "a frozen dataclass": (has(o=lambda: Frozen({})), lambda m, x: m.o.cache.update(x=x)),
    "an array of NumPy": (has(a=lambda: numpy.zeros((2, 3))[:, ::2]), lambda m, x: m.a.__iadd__(1)),
    "cycles": (prepare_cycle, lambda m, x: m.calls_of.update({m: m.calls_of[m] + 1})),
    "attributes of a class": (has(part=Layer), lambda m, x: m.part(x)),
    "training and requires_grad": (has(), freeze),
    "layers": (has(), replace_layer),
    "hooks": (has(), add_hooks),
    "gradients": (prepare_gradient, lambda m, x: [p.grad.zero_() for p in m.parameters() if p.grad is not None]),
    "an attribute of a parameter": (has(), lambda m, x: setattr(m.head.weight, "seen", True)),
}


def restless(name):
    Layer.calls, Layer.seen = 0, {}
    return Restless(*HABITS[name])


@pytest.mark.parametrize("name", HABITS)
def test_forward_changes_the_model_and_check_does_not(name):
    x = small_models.tokens()
    model = restless(name)
    before = state_of(model)
    model(x)
    assert state_of(model)[0] != before[0], "this habit tests nothing"
    model = restless(name)
    before = state_of(model, x)
    addnorm.check(model, x)
    assert_same(before, state_of(model, x))


FAILING = "BatchNorm's statistics", "a counter", "a buffer assigned"


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_model_that_fails_in_the_middle_is_restored(name, error):
    model, x = restless(name), small_models.tokens()
    before = state_of(model, x)

    def fail(module, inputs):
        raise error

    handle = model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(addnorm.Error if error is RuntimeError else error):
        addnorm.check(model, x)
    handle.remove()
    assert_same(before, state_of(model, x))


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize("n", [2, 3])
def test_a_model_that_fails_in_a_later_pass_is_restored(name, error, place, n):
    """The model fails in its n-th pass, after other passes have succeeded."""
    model, x, passes = restless(name), small_models.tokens(), []
    before = state_of(model, x)

    def fail(_):
        passes.append(1)
        if len(passes) == n:
            raise error

    def enter(module, inputs, output):
        if place == "forward":
            fail(output)
        elif output.requires_grad:
            output.register_hook(fail)

    handle = model.layers[1].register_forward_hook(enter)
    try:
        addnorm.check(model, x)
    except (error, addnorm.Error):
        pass
    handle.remove()
    assert len(passes) >= n
    assert_same(before, state_of(model, x))


def test_inputs_and_a_loss_with_parameters_are_restored():
    class Loss(nn.Linear):
        def forward(self, y):
            return super().forward(y).square().mean()

    model = Restless(has(), lambda m, x: None)
    loss, values = Loss(small_models.VOCABULARY, 1), torch.randn(2, 5, WIDTH, requires_grad=True)
    tokens, encoder = small_models.tokens(), nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, 3, 48, batch_first=True), 2)
    model.register_forward_pre_hook(lambda m, inputs: inputs[0].clamp_(max=20))
    before = state_of(model, loss, tokens, values)
    addnorm.check(model, tokens, loss=loss)
    addnorm.check(model, tokens, loss=lambda y: loss(y))
    addnorm.check(encoder, values)
    assert_same(before, state_of(model, loss, tokens, values))


def test_a_backward_that_is_still_to_come_goes_on():
    model, x = Restless(*HABITS["a parameter clamped past autograd"]), small_models.tokens()
    loss = model(x).sum()
    expected = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, allow_unused=True)
    addnorm.check(model, x)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    assert all(a is b or torch.equal(a, b) for a, b in zip(expected, found))


def test_a_part_in_inference_mode():
    model, x = small_models.decoder(2).eval(), small_models.tokens()
    with torch.inference_mode():
        model.table = torch.ones(3)
        before = model.table.clone()
        report = addnorm.check(model, x)
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        unchanged(lambda: None, model)
    assert report.sound and torch.equal(model.table, before) and model.table.is_inference()


def test_an_optimizer_that_steps_in_backward_does_not_step():
    parameter = nn.Parameter(torch.ones(2))
    if not hasattr(parameter, "register_post_accumulate_grad_hook"):
        pytest.skip("PyTorch before 2.1 has no hook behind a gradient")
    model, x = small_models.decoder(2), small_models.tokens()
    optimizers = {p: torch.optim.Adam([p]) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
    before = state_of(model)
    addnorm.check(model, x)
    assert_same(before, state_of(model))
    assert not any(optimizer.state for optimizer in optimizers.values())
    model(x).sum().backward()
    assert all(optimizer.state for optimizer in optimizers.values())


class Liar:
    """A proxy that claims to be a dictionary."""

    __class__ = property(lambda self: dict)


class Closed:
    """An object all of whose attributes raise an error."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __class__ = __dict__ = property(lambda self: self.anything)
    __eq__ = __bool__ = __len__ = __iter__ = __hash__ = lambda self, *_: self.anything


class ClosedDict(dict):
    """A dictionary whose own methods all fail."""

    __iter__ = items = keys = clear = update = __setitem__ = lambda self, *_: 1 / 0


class Structure(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int)]


def frozen_script():
    return torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))).eval())


def jagged():
    if not hasattr(torch, "jagged"):
        pytest.skip("PyTorch before 2.1 has no jagged tensors")
    return torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], layout=torch.jagged)


ODD = {
    "a lock": threading.Lock,
    "a thread": threading.current_thread,
    "a file": tempfile.TemporaryFile,
    "a queue": queue.Queue,
    "a generator": lambda: (i for i in range(3)),
    "a mappingproxy": lambda: types.MappingProxyType({"a": []}),
    "a structure of C": Structure,
    "a view of memory": lambda: memoryview(b"ab"),
    "an array that is read-only": lambda: numpy.broadcast_to(numpy.ones(1), 3),
    "a proxy of nothing": lambda: weakref.proxy(Uncopyable()),
    "a proxy": Liar,
    "a closed object": Closed,
    "a closed dictionary": lambda: ClosedDict(a=1),
    "an optimizer": lambda: torch.optim.SGD([torch.ones(2, requires_grad=True)], .1),
    "a frozen script": frozen_script,
    "a tensor without values": lambda: torch.ones(3, device="meta"),
    "a tensor that overlaps itself": lambda: torch.ones(4).as_strided((3, 2), (1, 1)),
    "a quantized tensor": lambda: torch.quantize_per_tensor(torch.ones(3), .1, 0, torch.qint8),
    "a tensor of tensors": jagged,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_objects_are_left_alone_and_all_else_is_restored(name):
    model, thing = small_models.decoder(1), ODD[name]()
    model.kept, model.count = [thing], 0

    def change():
        model.kept.append(thing)
        model.count += 1
        model.head.weight.data.zero_()

    weight = model.head.weight.clone()
    unchanged(change, model)
    assert len(model.kept) == 1 and model.kept[0] is thing
    assert model.count == 0 and torch.equal(model.head.weight, weight)


def test_an_error_in_restoring_comes_after_the_rest_is_restored():
    model = small_models.decoder(1)
    model.array, model.count = numpy.zeros(3), 0

    def change():
        model.array += 1
        model.array.flags.writeable = False
        model.count += 1
        model.head.weight.data.zero_()

    weight = model.head.weight.clone()
    with pytest.raises(ValueError, match="read-only"):
        unchanged(change, model)
    assert model.count == 0 and torch.equal(model.head.weight, weight)


def test_what_belongs_to_observers_stays():
    """A hook and the closure of a forward may count their calls, including those during a check."""
    model, x, seen = small_models.decoder(2), small_models.tokens(), []
    model.register_forward_hook(lambda *_: seen.append(1))
    addnorm.check(model, x)
    assert len(seen) > 1


def test_unchanged_returns_what_the_function_does_and_raises_what_it_raises():
    model = small_models.decoder(2)
    assert unchanged(lambda: 3, model) == 3
    with pytest.raises(ZeroDivisionError):
        unchanged(lambda: 1 / 0, model)


def test_pytorch_works_on_where_its_compiler_is_imported_while_a_model_is_checked():
    """Uses a separate process, because the compiler may already be imported in this one."""
    program = ("import sys, torch, addnorm, small_models\n"
               "assert 'torch._dynamo' not in sys.modules\n"
               "model = small_models.decoder()\n"
               "addnorm.check(model, small_models.tokens())\n"
               "torch.manual_seed(0)\n"
               "torch.optim.Adam(model.parameters())\n")
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_arrays_are_restored_and_files_are_not_read(tmp_path):
    model = small_models.decoder(2)
    model.counts = numpy.zeros((4, 3), ">f8")
    model.part = numpy.zeros((4, 6))[:, ::2]
    model.nothing = numpy.zeros((0, 3))
    model.file = numpy.memmap(tmp_path / "file", "f4", "w+", shape=(2**24,))
    forward = model.forward

    def counting(tokens):
        model.counts += 1
        model.part += 1
        return forward(tokens)

    model.forward = counting
    addnorm.check(model, small_models.tokens())  # imports its modules
    tracemalloc.start()
    addnorm.check(model, small_models.tokens())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not model.counts.any() and not model.part.any()
    assert peak < model.file.nbytes / 4


def test_a_kept_error_keeps_no_copy_of_the_model():
    def tensors():
        return [t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == (40, 24)]

    model = small_models.decoder(2)
    copies, others = [], {id(t) for t in tensors()}  # other tests' tensors

    def fail(tokens):
        copies.extend(weakref.ref(t) for t in tensors() if id(t) not in others)
        raise ValueError("no")

    model.forward = fail
    with pytest.raises(addnorm.Error) as error:
        addnorm.check(model, small_models.tokens())
    gc.collect()
    assert copies and error.value and [ref() for ref in copies if ref() is not None] == []


def test_long_chains_need_no_recursion():
    head = None
    for n in range(20000):
        head = types.SimpleNamespace(next=head, n=n)

    def change():
        head.next.next.n = -1

    unchanged(change, head)
    assert head.next.next.n == 20000 - 3
