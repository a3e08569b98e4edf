"""Hashes of the parameters, compared between the processes of distributed training."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, ClassVar, Iterator, Sequence

import torch
from torch import Tensor, nn

from ._sharded import gathers_parameters, is_sharded

_COLUMNS = 64
_MASK = 2**64 - 1
_KEPT = 4  # steps whose hashes stay in the store


def hash_of(tensor: Tensor) -> Tensor:
    """Returns a 64-bit integer on the tensor's device: Σ w(i)·bits(i) modulo 2^64. The weights w, which are
    odd numbers, repeat after 64. Integer sums do not depend on their order, so equal tensors have equal hashes on all devices."""
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    bits = values.detach().contiguous().view(-1).view(kind)
    whole = bits.numel() // _COLUMNS * _COLUMNS
    sums = bits[:whole].view(-1, _COLUMNS).sum(0, dtype=torch.int64)
    sums[:bits.numel() - whole] += bits[whole:]
    weights = torch.arange(_COLUMNS, device=bits.device) * 0x5851F42D4C957F2C + 0x14057B7EF767814F
    return (sums * weights).sum()


class Ranks:
    """Compares the parameters of this process with those of other processes that should be equal.

    The hashes go through the key-value store of torch.distributed, not through a collective operation. If only some
    processes watch their model, the others would not join a collective operation, and training would hang.
    """

    _watched: ClassVar[dict[str, int]] = {}  # the number of instances with these names and shapes of parameters
    _left: ClassVar[list[str]] = []  # keys of closed instances, which other processes may still read

    def __init__(self, model: nn.Module, network: nn.Module) -> None:
        self._replica = _replicated(model)
        self._is_whole = not any(map(_is_sharding, (*model.modules(), *network.modules())))
        self._network = network
        self._names: list[str] = []
        self._key, self._rank = "", 0
        self._published: dict[int, list[int]] = {}  # by step
        self._waiting: dict[int, set[int]] = {}  # the ranks not yet compared, by step
        self._began_equal: dict[int, bool] = {}  # whether all parameters were equal at first, by rank

    def hashes(self) -> list[Tensor]:
        """Returns the hash of each parameter that several processes should share; [] if there are none."""
        if not self._is_whole or len(self._others()) == 0:
            return []
        ignored = getattr(self._replica, "parameters_to_ignore", ())
        shared = {name: p for name, p in self._network.named_parameters()
                  if name not in ignored and not is_sharded(p) and not hasattr(p, "ds_id") and not p.is_meta}
        if not self._key:
            facts = "".join(f"{name} {tuple(p.shape)} {p.dtype}\n" for name, p in shared.items())
            kind = hashlib.sha256(facts.encode()).hexdigest()[:16]
            number = Ranks._watched[kind] = Ranks._watched.get(kind, 0) + 1
            self._names, self._key, self._rank = list(shared), f"addnorm/{kind}/{number}", _rank()
        return [hash_of(p) for p in shared.values()] if list(shared) == self._names else []

    def publish(self, step: int, hashes: Sequence[float]) -> None:
        """Publishes the hashes of a step for the other processes."""
        own = [int(h) & _MASK for h in hashes]
        self._published[step], self._waiting[step] = own, set(self._others())
        _store().set(self._own_key(step), struct.pack(f"{len(own)}Q", *own).hex())
        for old in sorted(self._published)[:-_KEPT]:
            self._leave(old)
        while Ranks._left:
            _store().delete_key(Ranks._left.pop())

    def compare(self) -> Iterator[tuple[int, str, int, str]]:
        """Compares each published step whose hashes have arrived. Yields the step, the first differing parameter, the
        number of differing parameters and the ranks. Does not wait for any process."""
        for step, own in list(self._published.items()):
            different: set[int] = set()
            ranks = []
            for rank in sorted(self._waiting[step]):
                theirs = self._read(step, rank)
                if theirs is None or len(theirs) != len(own):
                    continue
                self._waiting[step].discard(rank)
                others = {i for i, (a, b) in enumerate(zip(own, theirs)) if a != b}
                # Without a replica's mark, the processes may hold different parts of one model, with equal names and
                # some equal values, such as γ = 1. So a difference counts only if all hashes were equal at first.
                if others and (self._replica is not None or self._began_equal.get(rank)):
                    different |= others
                    ranks.append(rank)
                self._began_equal.setdefault(rank, not others)
            if different:
                yield step, self._names[min(different)], len(different), _words(_rank(), ranks)

    def turn_off(self) -> None:
        """Disables all further comparisons."""
        self._is_whole = False
        self.close()

    def close(self) -> None:
        """Releases the hashes of this process. The next publish() of any watch removes them from the store."""
        for step in list(self._published):
            self._leave(step)

    def _others(self) -> list[int]:
        """Returns the ranks to compare with: all others for the first process, the first process for the others."""
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            return []
        group = getattr(self._replica, "process_group", None)
        of_group = getattr(distributed, "get_process_group_ranks", None)
        ranks = of_group(group) if group is not None and of_group else list(range(distributed.get_world_size()))
        if _rank() not in ranks or _differs_by_design(self._replica):
            return []
        return [r for r in ranks if r != ranks[0]] if _rank() == ranks[0] else [ranks[0]]

    def _own_key(self, step: int) -> str:
        return self._key_of(step, self._rank)

    def _key_of(self, step: int, rank: int) -> str:
        return f"{self._key}/{step}/{rank}"

    def _read(self, step: int, rank: int) -> list[int] | None:
        key = self._key_of(step, rank)
        if not _store().check([key]):
            return None
        data = bytes.fromhex(_store().get(key).decode())
        return list(struct.unpack(f"{len(data) // 8}Q", data))

    def _leave(self, step: int) -> None:
        del self._published[step], self._waiting[step]
        Ranks._left.append(self._own_key(step))


def _rank() -> int:
    return int(torch.distributed.get_rank())


def _store() -> Any:
    from torch.distributed import distributed_c10d
    return distributed_c10d._get_default_store()


def _replicated(model: nn.Module) -> Any:
    """Returns the DistributedDataParallel around a model, or None."""
    while True:
        if type(model).__name__ == "DistributedDataParallel":
            return model
        inner = model._modules.get("_orig_mod")  # torch.compile's wrapper
        if inner is None:
            return None
        model = inner


def _is_sharding(module: nn.Module) -> bool:
    return type(module).__name__ == "FullyShardedDataParallel" or gathers_parameters(module)


def _differs_by_design(replica: Any) -> bool:
    """Whether processes average their parameters only at intervals (Lin et al. 2020, local SGD)."""
    return any("local" in str(getattr(hook[0], "__name__", "")).lower()
               for hook in getattr(replica, "_comm_hooks", ()) if isinstance(hook, tuple))


def _words(own: int, ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:4])) + (" and others" if len(ranks) > 4 else "")
    return f"process {own} and process{'es' if len(ranks) > 1 else ''} {shown}"
