"""The process of a PythonRival: python_rival.py RIVAL, where RIVAL is pytorch, pytorch_as_is, torch_compile or
onnxruntime.

Each input line gets one line as answer. The answer to a job is "ready", or "none" if the library has no such kernel.
The answer to a number of calls is the milliseconds of one call. The answer to a norm of a file's matrices is "ready"
when its outputs are written. After an error the answer is "failed" and the reason.
"""

import ctypes
import signal
import sys
import time

LIBRARY = sys.argv[1]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with the program, even while it is stopped

def answer(text):
    print(" ".join(str(text).split()), flush=True)

try:
    if LIBRARY == "onnxruntime":
        import numpy, onnx, onnx.helper, onnxruntime
    else:
        import torch
        if LIBRARY == "torch_compile":  # which needs PyTorch 2, a compiler and Python's headers
            torch.compile(torch.neg)(torch.ones(1))
except Exception as error:
    answer(f"failed: {error}")
    sys.exit()
answer("ready")

class Job:
    def __init__(self, norm, add, backward, in_place, rows, cols, dtype, epsilon, threads):
        self.norm, self.dtype = norm, dtype
        self.add, self.backward, self.in_place = add == "1", backward == "1", in_place == "1"
        self.rows, self.cols, self.epsilon, self.threads = int(rows), int(cols), float(epsilon), int(threads)

class NoSuchKernel(Exception):
    pass

def same(results, expected, job):
    tolerance = {"f32": 1e-4, "bf16": 3e-2, "f16": 4e-3}[job.dtype]
    if job.backward and job.dtype != "f32":  # in 16 bits a gradient that is summed over rows depends on the order
        results, expected = results[:1], expected[:1]
    for a, b in zip(results, expected, strict=True):
        error = abs(a - b).max() / max(1, abs(b).max())
        if not error <= tolerance:
            raise ValueError(f"{LIBRARY} differs from what is expected by {error} of the largest value")

# PyTorch

def uniform(job, *shape):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[job.dtype]
    return (2 * torch.rand(*shape) - 1).to(dtype)

def torch_norm(job, gamma, beta):
    functions = torch.nn.functional
    if job.norm == "layer":
        return lambda s: functions.layer_norm(s, (job.cols,), gamma, beta, job.epsilon)
    if hasattr(functions, "rms_norm"):
        return lambda s: functions.rms_norm(s, (job.cols,), gamma, job.epsilon)
    return lambda s: s * torch.rsqrt(s.square().mean(-1, keepdim=True) + job.epsilon) * gamma

def eager_and_compiled(job):
    """Work that PyTorch does operator by operator, and a function with its arguments for torch.compile."""
    torch.set_num_threads(job.threads)
    x, other = uniform(job, job.rows, job.cols), uniform(job, job.rows, job.cols)
    gamma, beta = uniform(job, job.cols), uniform(job, job.cols)
    norm = torch_norm(job, gamma, beta)
    plus = torch.Tensor.add_ if job.in_place else torch.Tensor.add
    if not job.backward:
        def forward(x, other):
            s = plus(x, other) if job.add else x
            return (norm(s), s) if job.add else (norm(s),)
        return (lambda: forward(x, other)), forward, (x, other)

    parameters = (gamma, beta) if job.norm == "layer" else (gamma,)
    for tensor in (x, *parameters):
        tensor.requires_grad_()
    y, dy = norm(x), uniform(job, job.rows, job.cols)
    def eager():
        dx, *others = torch.autograd.grad(y, (x, *parameters), dy, retain_graph=True)
        return (plus(other, dx) if job.add else dx), *others

    # torch.compile's backward graph also takes the statistics of the forward.
    s, gamma, beta = x.detach(), gamma.detach(), beta.detach()
    if job.norm == "layer":
        _, mean, inverse = torch.native_layer_norm(s, (job.cols,), gamma, beta, job.epsilon)
    else:
        mean, inverse = None, (s.float().square().mean(-1, keepdim=True) + job.epsilon).rsqrt()
    def backward(s, dy, other, mean, inverse):
        if job.norm == "layer":
            dx, *others = torch.ops.aten.native_layer_norm_backward(
                dy, s, (job.cols,), mean, inverse, gamma, beta, (True, True, True))
        else:
            normalized, d_normalized = s.float() * inverse, (dy * gamma).float()
            mean_product = (d_normalized * normalized).mean(-1, keepdim=True)
            dx = (inverse * (d_normalized - normalized * mean_product)).to(s.dtype)
            others = [(dy.float() * normalized).sum(0).to(s.dtype)]
        return (plus(other, dx) if job.add else dx), *others
    return eager, backward, (s, dy, other, mean, inverse)

def torch_work(job):
    eager, function, arguments = eager_and_compiled(job)
    if LIBRARY != "torch_compile":
        return eager
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=False)
    copies = [tuple(tensor if tensor is None else tensor.clone() for tensor in arguments) for _ in range(2)]
    eagerly = torch_results(function, copies[0])
    same(torch_results(compiled, copies[1]), eagerly, job)
    if job.backward and not job.in_place:
        same(eagerly, [tensor.detach().float() for tensor in eager()], job)
    return lambda: compiled(*arguments)

def torch_results(function, arguments):
    return [tensor.detach().float() for tensor in function(*arguments)]

def layer_norm(path, rows, cols, epsilon):
    shape = int(rows), int(cols)
    file = torch.from_file(path, shared=True, size=4 * shape[0] * shape[1])
    x, dy, y, dx = file.view(4, *shape)
    s = x.clone().requires_grad_()
    result = torch.nn.functional.layer_norm(s, shape[1:], eps=float(epsilon))
    y.copy_(result.detach())
    dx.copy_(torch.autograd.grad(result, s, dy)[0])

# ONNX Runtime: a model of one operator, whose results go to memory that is kept.

def onnx_model(job, inputs, outputs):
    """Inputs and outputs are shapes by name."""
    helper = onnx.helper
    def tensors(shapes):
        element = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16}[job.dtype]
        return [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]
    operator = {"layer": "LayerNormalization", "rms": "SimplifiedLayerNormalization"}[job.norm]
    node = helper.make_node(("Skip" if job.add else "") + operator, list(inputs),
                            ["y", "", "", "sum"] if job.add else ["y"],
                            domain="com.microsoft" if job.add else "", epsilon=job.epsilon)
    graph = helper.make_graph([node], "norm", tensors(inputs), tensors(outputs))
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=domains).SerializeToString()

def onnx_work(job):
    if job.backward or job.in_place or job.dtype == "bf16":
        raise NoSuchKernel
    dtype = {"f32": numpy.float32, "f16": numpy.float16}[job.dtype]
    matrix, vector = (job.rows, job.cols), (job.cols,)
    inputs = {"x": matrix, **({"skip": matrix} if job.add else {}), "gamma": vector,
              **({"beta": vector} if job.norm == "layer" else {})}
    outputs = {"y": matrix, **({"sum": matrix} if job.add else {})}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = job.threads, 4
    try:
        session = onnxruntime.InferenceSession(onnx_model(job, inputs, outputs), options, ["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            raise NoSuchKernel from error
        raise

    random = numpy.random.default_rng(1)
    arrays = {name: random.uniform(-1, 1, shape).astype(dtype) for name, shape in inputs.items()}
    ort_value = onnxruntime.OrtValue.ortvalue_from_numpy
    operands = {name: ort_value(array) for name, array in arrays.items()}
    results = {name: ort_value(numpy.zeros(shape, dtype)) for name, shape in outputs.items()}
    binding = session.io_binding()
    for name, value in operands.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in results.items():
        binding.bind_ortvalue_output(name, value)
    session.run_with_iobinding(binding)
    same([value.numpy().astype(float) for value in results.values()], onnx_expected(job, arrays), job)
    def work(keeps=(operands, results)):  # which the binding does not
        session.run_with_iobinding(binding)
    return work

def onnx_expected(job, arrays):
    wide = {name: array.astype(float) for name, array in arrays.items()}
    s = wide["x"] + wide.get("skip", 0)
    centred = s - s.mean(-1, keepdims=True) if job.norm == "layer" else s
    y = centred / numpy.sqrt((centred**2).mean(-1, keepdims=True) + job.epsilon) * wide["gamma"] + wide.get("beta", 0)
    return [y, s] if job.add else [y]

def measure(work, calls):
    work()  # as every candidate before its time is taken
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return 1e3 * (time.perf_counter() - start) / calls

prepare = onnx_work if LIBRARY == "onnxruntime" else torch_work
work = None
for line in iter(sys.stdin.readline, ""):
    words = line.split()
    try:
        if len(words) == 1:
            answer(measure(work, int(words[0])))
        elif words[0] == "layer_norm":
            layer_norm(*words[1:])
            answer("ready")
        else:
            work = None  # frees its tensors
            work = prepare(Job(*words))
            work()
            answer("ready")
    except NoSuchKernel:
        answer("none")
    except Exception as error:
        answer(f"failed: {error}")
