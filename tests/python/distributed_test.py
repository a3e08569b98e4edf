"""Models distributed over two processes are measured as in one process, and continue to run afterwards.

Needs PyTorch 2.7, where fully_shard runs on the CPU.
"""

import tempfile

import pytest

torch = pytest.importorskip("torch", minversion="2.7")

import addnorm  # noqa: E402
import small_models  # noqa: E402
from torch import distributed, nn  # noqa: E402


def fully_sharded(model, mesh):
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def replicated(model, mesh):
    return nn.parallel.DistributedDataParallel(model)


def tensor_parallel(model, mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    for layer in model.layers:
        parallelize_module(layer.feed_forward, mesh, {"0": ColwiseParallel(), "3": RowwiseParallel()})
    return model


WAYS = {"fully_shard": fully_sharded, "DistributedDataParallel": replicated, "tensor parallel": tensor_parallel}


def outputs(model):
    """Returns the logits of a step without dropout, and the gradient of the head's bias."""
    model.eval()
    logits = model(small_models.tokens())
    logits.square().mean().backward()
    bias = getattr(model, "module", model).head.bias
    gradient = bias.grad.full_tensor() if hasattr(bias.grad, "full_tensor") else bias.grad
    model.zero_grad()
    model.train()
    return torch.cat([logits.detach().flatten(), gradient])


def in_process(rank, folder, way, bugs):
    """Runs in each of the two processes. The first one saves its results."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
    model = WAYS[way](small_models.decoder(4, bugs), mesh)
    before = outputs(model)
    report = addnorm.check(model, small_models.tokens())
    same = [torch.equal(before, outputs(model))]
    with addnorm.watch(model, every=1) as watch:
        for _ in range(2):
            model(small_models.tokens()).square().mean().backward()
    model.zero_grad()
    same.append(torch.equal(before, outputs(model)))
    if rank == 0:
        torch.save([same, str(report), [f.rule for f in report.findings], str(watch.report)], f"{folder}/found")
    distributed.destroy_process_group()


def run(way, bugs=None):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(in_process, (folder, way, bugs), nprocs=2, start_method="fork")
        return torch.load(f"{folder}/found")


@pytest.mark.parametrize("way", WAYS)
def test_a_sound_model_is_measured_whole_and_runs_on_with_the_same_bits(way):
    same, text, findings, watched = run(way)
    assert same == [True, True] and findings == []
    for report in text, watched:
        assert "8 of 8 sums, 9 of 9 norms, 4 of 4 attentions" in report


@pytest.mark.parametrize("way", WAYS)
def test_a_bug_is_named(way):
    same, _, findings, _ = run(way, {2: "residual-missing"})
    assert same == [True, True] and "residual-missing" in findings
