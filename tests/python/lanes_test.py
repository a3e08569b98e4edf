"""Compares addnorm.lanes and its gradients with NumPy's einsum in float64, and checks its error messages."""

import os
import subprocess
import sys

import addnorm
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

settings.register_profile("here", database=None, deadline=None, max_examples=300)
settings.load_profile("here")
rng = np.random.default_rng(0)
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}


def bits(values):
    """Rounds float32 values to the bits of bfloat16, to nearest even."""
    word = np.asarray(values, np.float32).view(np.uint32)
    return ((word + 0x7FFF + (word >> 16 & 1)) >> 16).astype(np.uint16)


def floats(array):
    """Returns the values of an array, or of an object that only supports DLPack, as float64."""
    if isinstance(array, addnorm.BFloat16):
        return (array.bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def normal(shape, dtype="float64"):
    values = rng.standard_normal(shape)
    return addnorm.BFloat16(bits(values)) if dtype == "bfloat16" else values.astype(dtype)


def made_by_einsum(x, branch, carry, write):
    """Returns X′. An ellipsis stands for the rows of coefficients that differ by row, and for nothing otherwise."""
    made = x if carry is None else np.einsum("...pn,...nd->...pd", carry, x)
    return made if branch is None else made + np.einsum("...p,...d->...pd", write, branch)


def read_by_einsum(made, read, norm, gamma, beta):
    z = np.einsum("...p,...pd->...d", read, made)
    if norm is None:
        return z
    centred = z - z.mean(-1, keepdims=True) * (norm == "layer")
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) + beta


def arguments(dtype="float64", branch="float64", n=3, made=4, per_row=True, features=24, norm="layer"):
    rows = (2, 3)
    of_mix = rows if per_row else ()
    values = "float64" if dtype == "float64" else "float32"
    return dict(x=normal(rows + (n, features), dtype), branch=normal(rows + (features,), branch),
                carry=normal(of_mix + (made, n), values), write=normal(of_mix + (made,), values),
                read=normal(of_mix + (made,), values),
                gamma=normal(features, values) if norm else None,
                beta=normal(features, values) if norm else None)


@pytest.mark.parametrize("norm", [None, "layer", "rms"])
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("n, made", [(4, 4), (3, 5), (2, 1)])
@pytest.mark.parametrize("stream, branch", [("float64",) * 2, ("float32",) * 2, ("float16",) * 2,
                                            ("bfloat16",) * 2, ("float32", "bfloat16"),
                                            ("float32", "float16")])
def test_lanes_are_their_formula(stream, branch, n, made, per_row, norm):
    a = arguments(stream, branch, n, made, per_row, norm=norm)
    result = addnorm.lanes(**a, norm=norm)
    x_next = made_by_einsum(floats(a["x"]), floats(a["branch"]), a["carry"], a["write"])
    np.testing.assert_allclose(floats(result.sum), x_next, rtol=TOLERANCE[stream],
                               atol=TOLERANCE[stream])
    # y is computed from the stored X′.
    y = read_by_einsum(floats(result.sum), a["read"], norm, a["gamma"], a["beta"])
    np.testing.assert_allclose(floats(result.y), y, rtol=TOLERANCE[branch], atol=TOLERANCE[branch])
    assert (result.statistics is None) == (norm is None)
    assert isinstance(result.y, addnorm.BFloat16) == (branch == "bfloat16")


def central_difference(f, x, dy):
    """Returns the gradient of Σ f(x) ⊙ dy."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        gradient[i] = ((f(x + step) - f(x - step)) * dy).sum() / 2e-6
    return gradient


@pytest.mark.parametrize("norm", [None, "layer", "rms",
                                  addnorm.Norm("rms", 1e-3, gamma_form="one_plus", output_scale=0.5)],
                         ids=str)
@pytest.mark.parametrize("per_row", [False, True])
def test_backward_is_a_central_difference(norm, per_row):
    a = arguments(per_row=per_row, features=5, norm=norm)
    options = dict(norm=norm, dropout=0.3, seed=7, offset=11)
    result = addnorm.lanes(**a, **options)
    d_sum, dy = normal(result.sum.shape), normal(result.y.shape)
    gamma = a.pop("gamma")
    beta = a.pop("beta")
    gradients = addnorm.lanes_backward(d_sum, dy, **a, statistics=result.statistics, gamma=gamma,
                                       **options)
    weights = np.concatenate([d_sum.ravel(), dy.ravel()])
    values = dict(a, **({"gamma": gamma, "beta": beta} if norm else {}))
    for name, value in values.items():
        def both(changed):
            r = addnorm.lanes(**{**dict(a, gamma=gamma, beta=beta), name: changed}, **options)
            return np.concatenate([r.sum.ravel(), r.y.ravel()])
        gradient = getattr(gradients, "d" + name if name == "x" else "d_" + name)
        np.testing.assert_allclose(gradient, central_difference(both, value, weights), rtol=1e-5,
                                   atol=1e-6, err_msg=name)
    if norm is None:
        assert gradients.d_gamma is None and gradients.d_beta is None


@pytest.mark.parametrize("stream, branch", [("float32",) * 2, ("bfloat16",) * 2,
                                            ("float32", "bfloat16"), ("float16",) * 2])
def test_backward_of_other_types_is_that_of_float64(stream, branch):
    a = arguments(stream, branch, n=4, made=4)
    d_sum, dy = normal(a["x"].bits.shape if stream == "bfloat16" else a["x"].shape, stream), normal(
        (2, 3, 24), branch)
    beta = a.pop("beta")
    result = addnorm.lanes(**a, beta=beta, norm="rms")
    gradients = addnorm.lanes_backward(d_sum, dy, **a, statistics=result.statistics, norm="rms")
    wide = {name: floats(array) for name, array in a.items()}
    truth = addnorm.lanes(**wide, beta=floats(beta), norm="rms")
    expected = addnorm.lanes_backward(floats(d_sum), floats(dy), **wide, statistics=truth.statistics,
                                      norm="rms")
    tolerance = max(TOLERANCE[stream], TOLERANCE[branch])
    for name, ours, other in zip(gradients._fields, gradients, expected):
        scale = np.abs(other).max()
        np.testing.assert_allclose(floats(ours), other, atol=tolerance * scale, err_msg=name)


def test_what_is_not_given_is_left_out():
    x, branch, write, read = normal((5, 3, 8)), normal((5, 8)), normal(3), normal(3)
    written = addnorm.lanes(x, branch, None, write)
    np.testing.assert_allclose(written.sum, made_by_einsum(x, branch, None, write), rtol=1e-12)
    assert written.y is None and written.statistics is None
    alone = addnorm.lanes(x, None, None, None, read)
    assert alone.sum is x
    np.testing.assert_allclose(alone.y, read_by_einsum(x, read, None, None, None), rtol=1e-12)
    d_sum = normal((5, 3, 8))
    gradients = addnorm.lanes_backward(d_sum, None, x, branch, None, write)
    np.testing.assert_array_equal(gradients.dx, d_sum)
    assert gradients.d_carry is None and gradients.d_read is None
    dy = normal((5, 8))
    gradients = addnorm.lanes_backward(None, dy, x, None, None, None, read)
    np.testing.assert_allclose(gradients.dx, read[:, None] * dy[:, None], rtol=1e-12)
    np.testing.assert_allclose(gradients.d_read, np.einsum("rd,rnd->n", dy, x), rtol=1e-12)
    assert gradients.d_branch is None and gradients.d_write is None


def test_any_number_of_lanes_is_read():
    x, read = normal((5, 40, 8)), normal((5, 40))
    y = addnorm.lanes(x, None, None, None, read, norm="rms").y
    expected = read_by_einsum(x, read, "rms", 1, 0)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)


def test_a_norm_may_be_named_or_be_one():
    a = arguments("float32", "float32")
    named, whole = addnorm.lanes(**a, norm="rms", eps=0.1), addnorm.lanes(**a, norm=addnorm.Norm("rms", 0.1))
    np.testing.assert_array_equal(named.y, whole.y)


def test_one_lane_is_add_norm():
    x, branch, one = normal((5, 1, 8)), normal((5, 8)), np.ones(1)
    result = addnorm.lanes(x, branch, None, one, one, norm="layer")
    y, s, _ = addnorm.add_norm(x[:, 0], branch)
    np.testing.assert_array_equal(result.sum[:, 0], s)
    np.testing.assert_allclose(result.y, y, rtol=1e-12, atol=1e-13)


def test_results_stand_where_the_caller_says():
    a = arguments("float32", "float32", n=4, made=4)
    truth = addnorm.lanes(**a, norm="layer")
    wide = np.zeros((2, 3, 26), np.float32)
    result = addnorm.lanes(**a, norm="layer", sum=a["x"], out=wide[..., 1:25])
    assert result.sum is a["x"]
    np.testing.assert_array_equal(a["x"], truth.sum)
    np.testing.assert_array_equal(wide[..., 1:25], truth.y)
    assert not wide[..., 0].any() and not wide[..., 25].any()


def test_gradients_may_overwrite_what_comes_from_behind():
    a = arguments("float32", "float32", n=4, made=4)
    a.pop("beta")
    statistics = addnorm.lanes(**a, norm="rms").statistics
    d_sum, dy = normal(a["x"].shape, "float32"), normal(a["branch"].shape, "float32")
    truth = addnorm.lanes_backward(d_sum, dy, **a, statistics=statistics, norm="rms")
    result = addnorm.lanes_backward(d_sum, dy, **a, statistics=statistics, norm="rms", dx=d_sum,
                                    d_branch=dy)
    assert result.dx is d_sum and result.d_branch is dy
    for ours, other in zip(result, truth):
        np.testing.assert_array_equal(ours, other)


def test_tensors_go_in_and_out_by_dlpack():
    torch = pytest.importorskip("torch")
    a = arguments("float32", "float32")
    truth = addnorm.lanes(**a, norm="rms")
    tensors = {name: torch.from_numpy(array) for name, array in a.items()}
    out = torch.empty(2, 3, 24)
    result = addnorm.lanes(**tensors, norm="rms", out=out)
    assert result.y is out
    np.testing.assert_array_equal(out.numpy(), truth.y)
    np.testing.assert_array_equal(result.sum, truth.sum)


def test_no_rows_are_no_error():
    for carry, write in ((np.ones((2, 3)), np.ones(2)), (np.ones((0, 2, 3)), np.ones((0, 2)))):
        x, branch = np.empty((0, 3, 4)), np.empty((0, 4))
        result = addnorm.lanes(x, branch, carry, write, write, norm="layer")
        assert result.sum.shape == (0, 2, 4) and result.y.shape == (0, 4)
        gradients = addnorm.lanes_backward(result.sum, result.y, x, branch, carry, write, write,
                                           result.statistics, norm="layer")
        assert gradients.dx.shape == (0, 3, 4) and gradients.d_carry.shape == carry.shape
        assert not any(gradient.any() for gradient in gradients)


def call(**changes):
    """Calls forward and backward with all arrays. Named arguments replace the defaults."""
    f4 = lambda *shape: np.ones(shape, np.float32)
    a = dict(x=f4(3, 2, 4), branch=f4(3, 4), carry=f4(2, 2), write=f4(2), read=f4(2), gamma=f4(4),
             norm="rms")
    extra = dict(beta=f4(4), sum=f4(3, 2, 4), out=f4(3, 4))
    back = dict(d_sum=f4(3, 2, 4), dy=f4(3, 4), dx=f4(3, 2, 4), d_branch=f4(3, 4))
    for given in (a, extra, back):
        given.update({name: changes[name] for name in given.keys() & changes.keys()})
    a.update({name: changes[name] for name in changes.keys() - extra.keys() - back.keys() - {"statistics"}})
    result = addnorm.lanes(**a, **extra)
    return addnorm.lanes_backward(**back, **a, statistics=changes.get("statistics", result.statistics))


def read_only():
    array = np.ones((3, 2, 4), np.float32)
    array.flags.writeable = False
    return array


stream = np.ones((3, 2, 4), np.float32)
BAD = [
    ({"x": None}, TypeError, "x is None, must be a NumPy array or have __dlpack__"),
    ({"x": np.ones(4, np.float32), "carry": None}, addnorm.Error,
     r"x has the shape \(4,\), must have two axes or more"),
    ({"x": np.ones(4, np.float32)}, addnorm.Error,
     r"x has the shape \(4,\), must have an axis of lanes before the features"),
    ({"x": np.ones((3, 0, 4), np.float32), "carry": None}, addnorm.Error, "shape|x has 0 lanes"),
    ({"x": np.ones((3, 2, 8), np.float32)[..., ::2]}, addnorm.Error, "its rows must be without gaps"),
    ({"x": stream[::-1]}, addnorm.Error, "its rows must be without gaps"),
    ({"x": stream.swapaxes(0, 1).copy().swapaxes(0, 1)}, addnorm.Error, "equally far apart"),
    ({"branch": np.ones((3, 2, 4), np.float32)}, addnorm.Error,
     r"branch has the shape \(3, 2, 4\), must have \(3, 4\)"),
    ({"branch": np.ones((3, 4))}, TypeError, "branch has the type float64, must have float32"),
    ({"branch": None, "out": np.ones((3, 4), np.float32)}, addnorm.Error, "branch is absent"),
    ({"write": None}, addnorm.Error, "there is a branch, but no write"),
    ({"carry": np.ones(4, np.float32)}, addnorm.Error,
     r"carry has the shape \(4,\), must have two axes or more"),
    ({"carry": np.ones((2, 3), np.float32)}, addnorm.Error,
     r"carry has the shape \(2, 3\) .* must have \(2, 2\) or \(3, 2, 2\) and no gaps"),
    ({"carry": np.ones((4, 2, 2), np.float32)}, addnorm.Error, r"must have \(2, 2\) or \(3, 2, 2\)"),
    ({"carry": np.ones((0, 2), np.float32), "sum": np.ones((3, 0, 4), np.float32)}, addnorm.Error,
     "carry makes 0 lanes, must make some"),
    ({"carry": np.ones((2, 4), np.float32)[:, ::2]}, addnorm.Error, "no gaps"),
    ({"carry": np.ones((2, 2))}, TypeError, "carry has the type float64, must have float32"),
    ({"write": np.ones(3, np.float32)}, addnorm.Error, r"must have \(2,\) or \(3, 2\) and no gaps"),
    ({"read": np.ones(3, np.float32)}, addnorm.Error, r"read has the shape \(3,\)"),
    ({"read": None, "out": None}, addnorm.Error, "a norm takes one read, there are 0"),
    ({"gamma": np.ones(3, np.float32)}, addnorm.Error, "gamma has 3 values, must have 4"),
    ({"norm": None}, addnorm.Error, "gamma has 4 values, must have 0"),
    ({"norm": "batch"}, addnorm.Error, 'kind "batch" is unknown, must be one of layer, rms'),
    ({"eps": -1.0}, addnorm.Error, "eps is -1.0, must be from 0"),
    ({"dropout": 1.0}, addnorm.Error, "probability"),
    ({"seed": -1}, addnorm.Error, "seed is -1, must be an integer from 0"),
    ({"sum": read_only()}, addnorm.Error, "sum is read-only, but is written"),
    ({"sum": np.ones((3, 3, 4), np.float32)}, addnorm.Error, "sum has the shape"),
    ({"dx": read_only()}, addnorm.Error, "dx is read-only, but is written"),
    ({"x": stream, "dx": stream}, addnorm.Error, "x and dx overlap"),
    ({"dy": None}, addnorm.Error, "dy is absent"),
    ({"statistics": None}, addnorm.Error, "statistics has 0 values, must have 3"),
    ({"statistics": np.ones((3, 4), np.float32)}, addnorm.Error, r"statistics .* must have \(3, 6\)"),
]


@pytest.mark.parametrize("changes, error, sentence", BAD, ids=[sentence for _, _, sentence in BAD])
def test_what_cannot_be_used_is_named(changes, error, sentence):
    call()
    with pytest.raises(error, match=sentence):
        call(**changes)


def test_more_than_sixteen_lanes_are_not_mixed():
    with pytest.raises(addnorm.Error, match="x has 17 lanes, must have at most 16"):
        addnorm.lanes(np.ones((3, 17, 4)), None, np.ones((2, 17)), None)


@st.composite
def arrays(draw, memory=np.zeros(4000, np.float32)):
    """Draws a new array, or a view of one memory, so that arguments overlap. Most shapes
    are valid for some argument."""
    shape = draw(st.one_of(
        st.sampled_from([(3, 2, 4), (3, 4), (2, 2), (3, 2, 2), (2,), (3, 2), (4,), (3, 6), (1, 2), (0, 2)]),
        st.lists(st.integers(0, 4), max_size=4).map(tuple)))
    if draw(st.integers(0, 3)):
        return np.zeros(shape, draw(st.sampled_from(["f4"] * 9 + ["f2", "f8", "i4"])))
    strides = [4 * draw(st.integers(-4, 40)) for _ in shape]
    return np.lib.stride_tricks.as_strided(memory[1000 + draw(st.integers(0, 40)):], shape, strides)


def arrays_of(*shape):
    """Draws mostly valid arrays of this shape, and sometimes anything."""
    return st.one_of(st.builds(lambda: np.ones(shape, "f4")), st.builds(lambda: np.ones(shape, "f4")),
                     arrays(), st.none(), st.floats(), st.text(max_size=3))


lane_arrays, matrices, mixes = arrays_of(3, 2, 4), arrays_of(3, 4), arrays_of(2)


@given(st.tuples(lane_arrays, matrices, arrays_of(2, 2), mixes, mixes, matrices, lane_arrays,
                 arrays_of(3, 6), matrices, lane_arrays),
       st.sampled_from([None, None, "layer", "rms"]))
def test_whatever_is_given_ends_in_a_result_or_a_sentence(given_, norm):
    x, branch, carry, write, read, out, sum_, statistics, dy, dx = given_
    for run in (lambda: addnorm.lanes(x, branch, carry, write, read, norm=norm, sum=sum_, out=out),
                lambda: addnorm.lanes_backward(sum_, dy, x, branch, carry, write, read, statistics,
                                               norm=norm, dx=dx, d_branch=out)):
        try:
            run()
        except (ValueError, TypeError, OverflowError, BufferError) as error:
            assert len(str(error)) > 10 and "\n" not in str(error)


def test_the_bits_do_not_depend_on_threads():
    program = ("import addnorm, numpy as np, hashlib\n"
               "normal = lambda *s: np.random.default_rng(0).standard_normal(s).astype('f4')\n"
               "a = dict(x=normal(3000, 4, 256), branch=normal(3000, 256), carry=normal(4, 4),\n"
               "         write=normal(3000, 4), read=normal(4))\n"
               "r = addnorm.lanes(**a, norm='layer')\n"
               "g = addnorm.lanes_backward(r.sum, r.y, **a, statistics=r.statistics, norm='layer')\n"
               "print(hashlib.sha256(b''.join(array.tobytes() for array in r + g)).hexdigest())")
    runs = {subprocess.run([sys.executable, "-c", program], env={**os.environ, "OMP_NUM_THREADS": n},
                           check=True, capture_output=True).stdout for n in "12"}
    assert len(runs) == 1
