"""Parameters that wrongly differ between two processes are named; those that may differ are not."""

import datetime
import json
import pathlib
import tempfile
import warnings

import pytest

torch = pytest.importorskip("torch", minversion="2.0")  # reports an optimizer's steps

import addnorm  # noqa: E402
import small_models  # noqa: E402
from addnorm._ranks import hash_of  # noqa: E402
from torch import distributed, nn  # noqa: E402

NAME = "layers.0.feed_forward.0.weight"


def average(model):
    for p in model.parameters():
        distributed.all_reduce(p.grad)
        p.grad /= 2


def disturb(model, rank):
    if rank == 1:
        with torch.no_grad():
            parameters = dict(model.named_parameters())
            parameters[NAME][3, 5] += 1e-3
            parameters["head.bias"][0] += 1e-3


def train(rank, model, plain, before_step=lambda: None, count=3, watches=True):
    """Returns the findings and warnings of this process."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watch = addnorm.watch(model, every=1 if watches else 1000)
        with watch:
            for _ in range(count):
                model(small_models.tokens(seed=10 + rank)).square().mean().backward()
                before_step()
                optimizer.step()
                optimizer.zero_grad()
                distributed.barrier()
    return [[f.name, f.seen] for f in watch.report.findings if f.rule == "ranks-differ"], [
        str(w.message) for w in caught if "ranks-differ" in str(w.message)]


def replicas(rank):
    plain = small_models.decoder(1)
    return train(rank, nn.parallel.DistributedDataParallel(plain), plain)


def replicas_that_are_changed_in_one_process(rank):
    plain = small_models.decoder(1)
    return train(rank, nn.parallel.DistributedDataParallel(plain), plain, lambda: disturb(plain, rank))


def replicas_of_which_one_process_watches_less(rank):
    plain = small_models.decoder(1)
    return train(rank, nn.parallel.DistributedDataParallel(plain), plain, lambda: disturb(plain, rank),
                 watches=rank == 0)


def ignored_by_the_wrapper(rank):
    plain = small_models.decoder(1)
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(plain, [NAME, "head.bias"])
    return train(rank, nn.parallel.DistributedDataParallel(plain), plain, lambda: disturb(plain, rank))


def averaged_by_the_loop(rank):
    plain = small_models.decoder(1)
    return train(rank, plain, plain, lambda: average(plain))


def without_an_average(rank):
    plain = small_models.decoder(1)
    return train(rank, plain, plain)


def parts_of_a_larger_model(rank):
    """Manual tensor parallelism has the same names in both processes, and never the same values."""
    plain = small_models.decoder(1, seed=rank)
    return train(rank, plain, plain)


def fully_sharded(rank):
    """The two processes have different parts of each parameter."""
    from torch.distributed.fsdp import fully_shard
    plain = small_models.decoder(1)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
    for layer in plain.layers:
        fully_shard(layer, mesh=mesh)
    found = train(rank, fully_shard(plain, mesh=mesh), plain)
    return found[0] + [f.name for f in addnorm.check(plain, small_models.tokens(), behaviour=False).findings], found[1]


def sharded_without_a_step(rank):
    from torch.distributed.fsdp import fully_shard
    plain = small_models.decoder(1)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
    model = fully_shard(plain, mesh=mesh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with addnorm.watch(model, every=1) as watch:
            for _ in range(3):
                model(small_models.tokens(seed=10 + rank)).square().mean().backward()
                model.zero_grad()
    return [f.name for f in watch.report.findings]


def in_process(rank, folder, case):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2,
                                   timeout=datetime.timedelta(seconds=60))
    pathlib.Path(folder, f"found{rank}").write_text(json.dumps(globals()[case](rank)))
    distributed.barrier()
    distributed.destroy_process_group()


def run(case):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(in_process, (folder, case.__name__), nprocs=2, start_method="fork")
        return [json.loads(pathlib.Path(folder, f"found{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("case", [replicas, replicas_of_which_one_process_watches_less, ignored_by_the_wrapper,
                                  averaged_by_the_loop, parts_of_a_larger_model])
def test_sound_processes_have_no_finding(case):
    assert run(case) == [[[], []], [[], []]]


def test_the_first_parameter_that_differs_is_named_in_both_processes():
    for rank, (findings, caught) in enumerate(run(replicas_that_are_changed_in_one_process)):
        assert {name for name, _ in findings} == {f"ranks-differ@{NAME}"}
        assert "2 parameters differ between processes, this one first" in findings[0][1]
        assert f"process {rank} and process {1 - rank}" in findings[0][1]
        assert len(caught) == 1


def test_a_loop_that_does_not_average_gradients_is_found():
    for findings, _ in run(without_an_average):
        assert findings and findings[0][0] == "ranks-differ@embedding.weight"


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7),
                    reason="fully_shard runs on the CPU since PyTorch 2.7")
def test_sharded_parameters_are_not_compared_between_processes_and_their_steps_are_judged():
    assert run(fully_sharded) == [[[], []], [[], []]]
    assert run(sharded_without_a_step) == [["update-missing@model"]] * 2


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.complex64,
                                  torch.bool])
@pytest.mark.parametrize("shape", [(), (1,), (63,), (64,), (100, 33)])
def test_a_hash_changes_with_any_bit_and_any_exchange(kind, shape):
    numbers = torch.randint(0, 2 if kind is torch.bool else 99, shape, generator=torch.Generator().manual_seed(1))
    tensor = numbers.to(kind)
    expected = int(hash_of(tensor))
    assert int(hash_of(tensor.clone())) == expected
    changed = tensor.clone().reshape(-1)
    changed[-1] = changed[-1] == 0
    assert int(hash_of(changed)) != expected
    if len(shape) == 2:
        assert int(hash_of(tensor.T.contiguous())) != expected and int(hash_of(tensor.T)) != expected
        assert int(hash_of(tensor.T.contiguous().T)) == expected
