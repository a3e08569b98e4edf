"""Compares addnorm's functions on arrays with NumPy in float64, and checks the messages about invalid arrays."""

import json
import math
import os
import pathlib
import subprocess
import sys
import threading

import addnorm
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

settings.register_profile("here", database=None, deadline=None, max_examples=200)
settings.load_profile("here")
rng = np.random.default_rng(0)


def bits(values):
    """Rounds float32 values to the bits of bfloat16, to nearest even."""
    word = np.asarray(values, np.float32).view(np.uint32)
    return ((word + 0x7FFF + (word >> 16 & 1)) >> 16).astype(np.uint16)


def floats(array):
    """Returns the values of an array, or of an object that only supports DLPack, as float64."""
    if isinstance(array, addnorm.BFloat16):
        return (array.bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def normal(shape, dtype):
    values = rng.standard_normal(shape)
    return addnorm.BFloat16(bits(values)) if dtype == "bfloat16" else values.astype(dtype)


def expected(s, gamma, beta, norm):
    """Returns the norm and the values that backward needs, by the formula in float64."""
    n = s.shape[-1]
    centred = s - s.mean(-1, keepdims=True) * (norm.kind == "layer")
    divisor = n - (norm.variance == "unbiased")
    variance = (centred**2).sum(-1, keepdims=True) / divisor
    deviation = (np.sqrt(variance + norm.eps) if norm.eps_at == "variance"
                 else np.sqrt(variance) + norm.eps)
    gamma = gamma + (norm.gamma_form == "one_plus")
    return norm.output_scale * (gamma * centred / deviation + beta)


def central_difference(f, x, dy):
    """Returns the gradient of Σ f(x) ⊙ dy."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        gradient[i] = ((f(x + step) - f(x - step)) * dy).sum() / 2e-6
    return gradient


NORMS = [addnorm.Norm(), addnorm.Norm("rms", 1e-6),
         addnorm.Norm("layer", 0.01, eps_at="deviation", variance="unbiased"),
         addnorm.Norm("rms", 1e-3, gamma_form="one_plus", output_scale=0.5)]
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("norm", NORMS, ids=str)
@pytest.mark.parametrize("stream, branch", [("float64",) * 2, ("float32",) * 2, ("float16",) * 2,
                                            ("bfloat16",) * 2, ("float32", "bfloat16"),
                                            ("float32", "float16")])
def test_add_norm_is_its_formula(norm, stream, branch):
    x, f = normal((2, 3, 48), stream), normal((2, 3, 48), branch)
    values = "float64" if stream == "float64" else "float32"
    gamma, beta = normal(48, values), normal(48, values)
    skip, gain = normal(48, values), 0.5
    y, s, _ = addnorm.add_norm(x, f, gamma, beta, norm, skip=skip, gain=gain)
    np.testing.assert_allclose(floats(s), skip * floats(x) + gain * floats(f), atol=TOLERANCE[stream])
    # y is the norm of the stored s.
    np.testing.assert_allclose(floats(y), expected(floats(s), gamma, beta, norm),
                               rtol=TOLERANCE[branch], atol=TOLERANCE[branch])


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_backward_is_a_central_difference(norm):
    x, f, dy, d_residual = (rng.standard_normal((4, 6)) for _ in range(4))
    gamma, beta, skip, gain = (rng.standard_normal(6) for _ in range(4))
    dropout = dict(dropout=0.3, seed=7, offset=11)

    def forward(x=x, f=f, gamma=gamma, beta=beta, skip=skip, gain=gain):
        return addnorm.add_norm(x, f, gamma, beta, norm, skip=skip, gain=gain, **dropout)

    y, s, statistics = forward()
    ds, d_gamma, d_beta = addnorm.add_norm_backward(dy, s, statistics, gamma, norm,
                                                    d_residual=d_residual)
    d_branch, d_skip, d_gain = addnorm.residual_add_backward(ds, x, f, skip=skip, gain=gain, **dropout)
    dx = addnorm.residual_add(ds, None, skip=skip)
    for name, gradient in dict(x=dx, f=d_branch, gamma=d_gamma, beta=d_beta, skip=d_skip,
                               gain=d_gain).items():
        def both(value):
            result = forward(**{name: value})
            return np.concatenate([result.y, result.sum])
        truth = central_difference(both, locals()[name], np.concatenate([dy, d_residual]))
        np.testing.assert_allclose(gradient, truth, rtol=1e-5, atol=1e-6, err_msg=name)


def test_layer_and_rms_norm_are_add_norm_without_a_branch():
    x, dy = normal((5, 16), "float32"), normal((5, 16), "float32")
    gamma, beta = normal(16, "float32"), normal(16, "float32")
    y, statistics = addnorm.layer_norm(x, gamma, beta, eps=1e-3, return_statistics=True)
    full = addnorm.add_norm(x, None, gamma, beta, addnorm.Norm(eps=1e-3))
    np.testing.assert_array_equal(y, full.y)
    np.testing.assert_array_equal(full.sum, x)
    for ours, other in zip(addnorm.layer_norm_backward(dy, x, statistics, gamma),
                           addnorm.add_norm_backward(dy, x, full.statistics, gamma)):
        np.testing.assert_array_equal(ours, other)
    y, statistics = addnorm.rms_norm(x, gamma, return_statistics=True)
    full = addnorm.add_norm(x, None, gamma, None, addnorm.Norm("rms"))
    np.testing.assert_array_equal(y, full.y)
    dx, d_gamma, _ = addnorm.add_norm_backward(dy, x, statistics, gamma, addnorm.Norm("rms"))
    for ours, other in zip(addnorm.rms_norm_backward(dy, x, statistics, gamma), (dx, d_gamma)):
        np.testing.assert_array_equal(ours, other)


def squashed(kind, x, gamma, beta, alpha, shift):
    u = alpha * x + shift
    return gamma * (np.tanh(u) if kind == "dyt" else np.vectorize(math.erf)(u)) + beta


@pytest.mark.parametrize("kind", ["dyt", "derf"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_dyt_and_derf_are_their_formulas(kind, dtype):
    x = normal((2, 3, 48), dtype)
    values = "float64" if dtype == "float64" else "float32"
    gamma, beta = normal(48, values), normal(48, values)
    function, options = getattr(addnorm, kind), {} if kind == "dyt" else dict(shift=-0.3)
    y = function(x, gamma, beta, alpha=np.array([0.8], values), **options)
    np.testing.assert_allclose(floats(y), squashed(kind, floats(x), gamma, beta, 0.8, sum(options.values())),
                               rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(floats(function(x)), squashed(kind, floats(x), 1, 0, 0.5, 0),
                               rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("kind", ["dyt", "derf"])
def test_backward_of_dyt_and_derf_is_a_central_difference(kind):
    x, dy = rng.standard_normal((4, 6)), rng.standard_normal((4, 6))
    gamma, beta, alpha, shift = (rng.standard_normal(n) for n in (6, 6, 1, 1))
    options = dict(alpha=alpha) if kind == "dyt" else dict(alpha=alpha, shift=shift)
    gradients = getattr(addnorm, f"{kind}_backward")(dy, x, gamma, **options)

    def forward(x=x, gamma=gamma, beta=beta, **changed):
        return getattr(addnorm, kind)(x, gamma, beta, **{**options, **changed})

    for name, gradient in zip(("x", "gamma", "beta", *options), gradients, strict=True):
        truth = central_difference(lambda value: forward(**{name: value}), locals()[name], dy)
        np.testing.assert_allclose(gradient, truth, rtol=1e-5, atol=1e-6, err_msg=name)
    place = x.copy()
    assert getattr(addnorm, kind)(place, gamma, beta, **options, out=place) is place
    np.testing.assert_array_equal(place, forward())


def test_dyt_names_what_is_wrong():
    x = np.ones((2, 3))
    with pytest.raises(addnorm.Error, match="alpha has 3 values, must have 1"):
        addnorm.dyt(x, alpha=np.ones(3))
    with pytest.raises(TypeError, match="alpha is a str"):
        addnorm.dyt(x, alpha="much")
    with pytest.raises(addnorm.Error, match="gamma has 2 values, must have 3"):
        addnorm.derf(x, np.ones(2))
    with pytest.raises(addnorm.Error, match="dy has the shape"):
        addnorm.derf_backward(np.ones((2, 2)), x)


def test_results_stand_where_the_caller_says():
    x, f = normal((4, 8), "float32"), normal((4, 8), "float32")
    y, s, _ = addnorm.add_norm(x, f)
    wide = np.zeros((4, 10), np.float32)
    result = addnorm.add_norm(x, f, sum=x, out=wide[:, 1:9])  # in place, and into some columns of a larger array
    assert result.sum is x
    np.testing.assert_array_equal(x, s)
    np.testing.assert_array_equal(wide, np.pad(y, ((0, 0), (1, 1))))


def test_nothing_is_copied_from_rows_that_are_apart():
    x = normal((6, 4, 10), "float64")
    np.testing.assert_array_equal(addnorm.layer_norm(x[:, 1, :8]),
                                  addnorm.layer_norm(x[:, 1, :8].copy()))


def test_bfloat16_goes_in_and_out_by_dlpack():
    torch = pytest.importorskip("torch")
    t = torch.randn(3, 32).bfloat16()
    y = torch.from_dlpack(addnorm.layer_norm(t))
    truth = torch.nn.functional.layer_norm(t.double(), (32,))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), truth, rtol=2**-8, atol=1e-6)
    out = torch.empty_like(t)
    assert addnorm.layer_norm(t, out=out) is out
    assert torch.equal(out, y)
    raw = addnorm.BFloat16(t.view(torch.int16).numpy().view(np.uint16))
    assert (floats(addnorm.layer_norm(raw)) == y.double().numpy()).all()


def test_vectors_may_have_any_stride():
    x, wide, one = normal((3, 8), "float32"), normal(16, "float32"), normal(1, "float32")
    for vector in wide[::2], wide[::-2], np.broadcast_to(one, 8):
        copy = vector.copy()
        options = [dict(gamma=g, beta=g, skip=g, gain=g) for g in (vector, copy)]
        ours, same = (addnorm.add_norm(x, x, **named) for named in options)
        assert (ours.y == same.y).all() and (ours.sum == same.sum).all()
        dx, same_dx = (addnorm.add_norm_backward(x, ours.sum, ours.statistics, g)[0] for g in (vector, copy))
        assert (dx == same_dx).all()
        assert (addnorm.dyt(x, vector, vector) == addnorm.dyt(x, copy, copy)).all()


def test_torch_vectors_may_be_expanded():
    torch = pytest.importorskip("torch")
    x, gamma = torch.randn(3, 8), torch.randn(1).expand(8)
    assert torch.equal(addnorm.layer_norm(x, gamma), addnorm.layer_norm(x, gamma.clone()))


def test_a_backward_that_needs_values_which_an_output_has_replaced_raises():
    torch = pytest.importorskip("torch")
    calls = {"layer_norm": lambda out, x: addnorm.layer_norm(x, out=out),
             "add_norm, out": lambda out, x: addnorm.add_norm(x, x, out=out),
             "add_norm, sum": lambda out, x: addnorm.add_norm(x, x, sum=out),
             "residual_add": lambda out, x: addnorm.residual_add(x, x, out=out),
             "dyt": lambda out, x: addnorm.dyt(x, out=out),
             "dyt_backward": lambda out, x: addnorm.dyt_backward(x, x, dx=out)}
    for name, call_into in calls.items():
        saved = torch.randn(2, 4, requires_grad=True) * 2
        square = saved**2  # saves `saved`
        call_into(saved.detach(), torch.randn(2, 4))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()
            pytest.fail(name)
    with torch.inference_mode():
        out = torch.empty(2, 4)
    assert addnorm.layer_norm(torch.randn(2, 4), out=out) is out


def test_a_view_that_negates_its_memory_is_refused():
    torch = pytest.importorskip("torch")
    view = torch._neg_view(torch.randn(2, 4))
    with pytest.raises(addnorm.Error, match="x is a view that negates its memory; pass x.resolve_neg"):
        addnorm.layer_norm(view)
    assert torch.equal(addnorm.layer_norm(view.resolve_neg()), addnorm.layer_norm(view.clone()))


def test_dlpack_of_tensors_that_need_gradients_or_have_been_used():
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="require gradient"):
        addnorm.layer_norm(torch.ones(2, 4, requires_grad=True))
    with pytest.raises(addnorm.Error, match="without gaps"):
        addnorm.layer_norm(torch.ones(4, 2).t())
    with pytest.raises(TypeError, match="x has DLPack's type .0, 64 bits"):
        addnorm.layer_norm(torch.ones(2, 4, dtype=torch.long))
    capsule = torch.utils.dlpack.to_dlpack(torch.ones(2, 4))
    torch.from_dlpack(capsule)
    with pytest.raises(TypeError, match="x has no DLPack tensor"):
        addnorm.layer_norm(capsule)


def call(**changes):
    """Calls forward and backward with all arrays. Named arguments replace the defaults."""
    a = {name: np.ones((3, 4), np.float32) for name in ("x", "branch", "sum", "out", "dy", "dx",
                                                         "d_residual")}
    a.update(gamma=np.ones(4, np.float32), beta=np.ones(4, np.float32), norm=addnorm.Norm())
    a.update(changes)
    y, s, statistics = addnorm.add_norm(a["x"], a["branch"], a["gamma"], a["beta"], a["norm"],
                                        sum=a["sum"], out=a["out"],
                                        **{k: changes[k] for k in changes.keys() &
                                           {"skip", "gain", "dropout", "seed", "offset"}})
    return addnorm.add_norm_backward(a["dy"], s, changes.get("statistics", statistics), a["gamma"],
                                     a["norm"], d_residual=a["d_residual"], dx=a["dx"])


def read_only():
    array = np.ones((3, 4), np.float32)
    array.flags.writeable = False
    return array


def unaligned():
    return np.zeros(49, np.uint8)[1:].view(np.float32).reshape(3, 4)


class InterfaceOnly:
    """An array that has only NumPy's older protocol, `__array_interface__`."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


square = np.ones((3, 4), np.float32)
BAD = [
    ({"x": None}, TypeError, "x is None, must be a NumPy array or have __dlpack__"),
    ({"x": [[1.0]]}, TypeError, "x is a list, must be"),
    ({"x": np.ones((3, 4), int)}, TypeError, "x has the type int64, must be float32, float64"),
    ({"x": np.ones((3, 4), ">f4")}, TypeError, "x has the type >f4"),
    ({"x": np.ones((3, 4), np.longdouble)}, TypeError, "x has the type float128"),
    ({"x": np.zeros((3, 4), "M8[s]")}, TypeError, r"x has the type datetime64\[s\], must be float32"),
    ({"x": np.zeros((3, 4), [("a", "f4")])}, TypeError, r"x has the type \[\('a', '<f4'\)\], must be float32"),
    ({"x": np.zeros((3, 4), object)}, TypeError, "x has the type object, must be float32"),
    ({"x": memoryview(np.ones((3, 4), np.float32))}, TypeError, "x is a memoryview, must be a NumPy array"),
    ({"x": InterfaceOnly(np.ones((3, 4), np.float32))}, TypeError, "x is a InterfaceOnly, must be a NumPy array"),
    ({"x": np.array(1, np.float32)}, addnorm.Error, "x is a single number"),
    ({"branch": np.ones((3, 4))}, TypeError, "branch has the type float64, must have float32"),
    ({"branch": np.ones((3, 4), np.float16)}, TypeError,
     "out has the type float32, must have float16"),
    ({"branch": np.ones((4, 3), np.float32)}, addnorm.Error,
     r"branch has the shape \(4, 3\), must have \(3, 4\)"),
    ({"x": np.ones((3, 8), np.float32)[:, ::2]}, addnorm.Error, "its rows must be without gaps"),
    ({"x": np.ones((4, 3), np.float32).T}, addnorm.Error, "its rows must be without gaps"),
    ({"x": square[::-1]}, addnorm.Error, "its rows must be without gaps"),
    ({"x": np.broadcast_to(square[0], (3, 4))}, addnorm.Error, "its rows must be without gaps"),
    ({"out": read_only()}, addnorm.Error, "out is read-only, but is written"),
    ({"dx": read_only()}, addnorm.Error, "dx is read-only, but is written"),
    ({"x": unaligned()}, addnorm.Error, "x is not aligned to 4 bytes"),
    ({"sum": square, "out": square}, addnorm.Error, "overlap"),
    ({"x": np.ones((4, 4), np.float32)[1:], "gamma": np.ones(5, np.float32)}, addnorm.Error,
     "gamma has 5 values, must have 4"),
    ({"gamma": np.ones((1, 4), np.float32)}, addnorm.Error, "gamma .* must have one axis and no gaps"),
    ({"gamma": np.ones(4)}, TypeError, "gamma has the type float64, must have float32"),
    ({"skip": np.ones(3, np.float32)}, addnorm.Error, "skip has 3 values, must have 4"),
    ({"gain": "2"}, TypeError, "gain is a str, must be"),
    ({"dropout": 1.0}, addnorm.Error, "probability"),
    ({"dropout": "0.1"}, TypeError, "dropout is '0.1', must be a number"),
    ({"norm": "rms"}, TypeError, "norm is 'rms', must be an addnorm.Norm"),
    ({"norm": 768}, TypeError, "norm is 768, must be an addnorm.Norm"),
    ({"seed": -1}, addnorm.Error, "seed is -1, must be an integer from 0"),
    ({"statistics": np.ones((3, 4), np.float32)}, addnorm.Error, r"statistics .* must have \(3, 6\)"),
    ({"statistics": None}, addnorm.Error, "statistics"),
    ({"dy": None}, addnorm.Error, "dy"),
]


@pytest.mark.parametrize("changes, error, sentence", BAD, ids=[sentence for _, _, sentence in BAD])
def test_what_cannot_be_used_is_named(changes, error, sentence):
    call()
    with pytest.raises(error, match=sentence):
        call(**changes)


@pytest.mark.parametrize("options, sentence", [
    ({"kind": "batch"}, 'kind "batch" is unknown, must be one of layer, rms'),
    ({"eps": -1.0}, "eps is -1.0"), ({"eps": float("nan")}, "eps is nan"), ({"output_scale": 0.0}, "output_scale is 0.0")])
def test_norms_that_there_are_not(options, sentence):
    with pytest.raises(addnorm.Error, match=sentence):
        addnorm.Norm(**options)


def test_no_rows_are_no_error_and_no_features_are():
    y, s, statistics = addnorm.add_norm(np.empty((0, 4)), np.empty((0, 4)))
    assert y.shape == s.shape == (0, 4)
    dx, d_gamma, d_beta = addnorm.add_norm_backward(y, s, statistics)
    assert dx.shape == (0, 4) and not d_gamma.any() and not d_beta.any()
    with pytest.raises(addnorm.Error, match="no features"):
        addnorm.layer_norm(np.empty((4, 0)))


# Arrays of every kind: types, orders, shapes with 0, steps, read-only, and views of one memory.
dtypes = st.sampled_from(["f2", "f4", "f8", ">f4", "i4", "u2", "c8", "?", "O", "U3", "M8[s]",
                          np.dtype([("a", "f4"), ("b", "i1")])])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def arrays(draw, memory=np.zeros(400, np.float32)):
    if draw(st.booleans()):  # a view of one memory, so that arguments overlap
        shape = draw(hnp.array_shapes(max_dims=2, max_side=4))
        offset = draw(st.integers(0, 20))
        strides = [4 * draw(st.integers(-4, 9)) for _ in shape]
        return np.lib.stride_tricks.as_strided(memory[180 + offset:], shape, strides)
    array = np.zeros(draw(shapes), draw(dtypes))
    if draw(st.booleans()) and array.ndim:
        array = array[tuple(slice(None, None, draw(st.sampled_from([1, 2, -1]))) for _ in array.shape)]
    array.flags.writeable = draw(st.booleans())
    return array


anything = st.one_of(arrays(), st.none(), st.integers(), st.floats(), st.text(max_size=3),
                     st.lists(st.floats(), max_size=3), st.just(addnorm.BFloat16(np.ones((3, 4), "u2"))))
plausible = st.one_of(anything, st.just(None), st.builds(lambda: np.ones((3, 4), "f4")),
                      st.builds(lambda: np.ones(4, "f4")), st.builds(lambda: np.ones((3, 6), "f4")))


@given(st.lists(plausible, min_size=10, max_size=10))
def test_whatever_is_given_ends_in_a_result_or_a_sentence(given_):
    x, branch, gamma, beta, skip, gain, sum_, out, statistics, dy = given_
    for run in (lambda: addnorm.add_norm(x, branch, gamma, beta, skip=skip, gain=gain, sum=sum_, out=out),
                lambda: addnorm.layer_norm(x, gamma, beta, out=out),
                lambda: addnorm.add_norm_backward(dy, x, statistics, gamma, d_residual=branch, dx=out),
                lambda: addnorm.residual_add_backward(dy, x, branch, skip=skip, gain=gain, d_branch=out)):
        try:
            run()
        except (ValueError, TypeError, OverflowError, BufferError) as error:
            assert len(str(error)) > 10 and "\n" not in str(error)


@pytest.fixture
def short_turns():
    """Shortens the turns of threads that hold the GIL. By default a thread waits 5 ms for
    it, before and after a call."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_other_threads_run_meanwhile(short_turns):
    """Python code can see a result whose first value is written and whose last one is not. If the kernels held the
    GIL, it would see either none of the values or all. A thread that gets no processor meanwhile tries again."""
    x = np.ones((64, 1 << 18), np.float32)
    for _ in range(300):
        y = np.full_like(x, np.nan)
        thread = threading.Thread(target=addnorm.layer_norm, args=(x,), kwargs={"out": y})
        thread.start()
        is_partial = False
        while thread.is_alive() and not is_partial:
            is_partial = not np.isnan(y[0, 0]) and np.isnan(y[-1, -1])
        thread.join()
        if is_partial:
            return
    pytest.fail("no Python code ran during 300 norms")


def test_the_bits_do_not_depend_on_threads():
    program = ("import addnorm, numpy as np, hashlib, sys\n"
               "x = np.random.default_rng(0).standard_normal((3000, 512)).astype('f4')\n"
               "y, s, t = addnorm.add_norm(x, x[::-1].copy())\n"
               "print(hashlib.sha256(b''.join(a.tobytes() for a in addnorm.add_norm_backward(x, s, t) + (y,)"
               ")).hexdigest())")
    runs = {subprocess.run([sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": n},
                           check=True, capture_output=True).stdout for n in "12"}
    assert len(runs) == 1


def test_a_forked_process_computes_the_same():
    """OpenMP's threads do not exist in the child, and waiting for them would never end."""
    program = """if True:
        import addnorm, numpy, os, signal
        x = numpy.arange(4096 * 64, dtype=numpy.float32).reshape(4096, 64)
        y = addnorm.layer_norm(x)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # which ends who waits
            os._exit(0 if (addnorm.layer_norm(x) == y).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert (addnorm.layer_norm(x) == y).all()"""
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": "2"}, check=True)


def test_the_package_stands_alone_where_it_is_installed():
    """The installed package works in an empty environment, from another folder, with only Python's own packages. NumPy,
    whose import is slow, is loaded by the first function that needs it."""
    prefix = pathlib.Path(addnorm.__file__).parents[1]
    program = ("import sys, json, addnorm\n"
               "print(json.dumps([addnorm.__file__, addnorm.__version__, 'torch' in sys.modules, 'numpy' in sys.modules,"
               " addnorm.layer_norm(__import__('numpy').eye(2)).tolist()]))")
    run = subprocess.run([sys.executable, "-c", program], cwd="/", env={"PYTHONPATH": str(prefix)},
                         capture_output=True, text=True, check=True)
    file, version, has_torch, has_numpy, y = json.loads(run.stdout)
    assert pathlib.Path(file).parent == prefix / "addnorm" and version == addnorm.__version__
    assert not has_torch and not has_numpy
    assert y == [pytest.approx([1, -1], abs=1e-4), pytest.approx([-1, 1], abs=1e-4)]
    assert (prefix / "addnorm" / "py.typed").exists()
