"""PyTorch: a model and its optimizers as a job.

The state has, in this order: the model's parameters and buffers under their own names; the optimizers' tensors,
``optimizer:KEY:PARAMETER``; which parameters they have state for and numbers kept per parameter; and the numbers
of parameter groups, of ``keep=`` and of ``job.vars``, as bytes (blob.py). Parameters see *state*, and in an update
*next*, without a copy. The sums are the gradients, how many shards gave one, the differences of the buffers, the
weight, the loss and the reports.
"""
from __future__ import annotations

import copy
import inspect
import mmap
import operator
import struct
import warnings
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from . import blob, identity, job as jobs, session as sessions, torch_device
from .errors import Error, Refused
from .protocol import (
    ALIKE, APPLY_ONLY, CONSTANT, HAS_ONCE, ONCE_EVALUATED, ONCE_ONLY, STATE, SUM, After, Description, DType, Finish,
    Layout, Once, Options, Part, Phase, Shard, SumFlag, Tensor,
)  # fmt: skip
from .worker import Arenas, Program, can_fork

_DTYPES: Dict[torch.dtype, DType] = {
    torch.float32: DType.F32, torch.float64: DType.F64, torch.int32: DType.I32, torch.int64: DType.I64,
    torch.uint8: DType.U8, torch.bfloat16: DType.BF16, torch.float16: DType.F16, torch.int16: DType.I16,
    torch.int8: DType.I8, torch.bool: DType.BOOL,
}  # fmt: skip

_GRADIENT_BITS, _LOSS_BITS, _WEIGHT_BITS = 40, 30, 20
_SMALL = 64
"""A tensor among numbers (a learning rate) may have so many elements."""
_PART_ELEMENTS, _PARTS_MOST = 1 << 20, 16
_DOUBLE = struct.Struct("=d")
_VARS_ROOM = 4096

_TAKEN_NAMES = ("optimizer:", "keep:", "vars:", "godwit.", "sum:")


def _view(memory: mmap.mmap, tensor: Tensor, offset: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor that is the memory of an arena."""
    with warnings.catch_warnings():  # that read-only memory can be written to is what the kernel refuses
        warnings.simplefilter("ignore", UserWarning)
        flat = torch.frombuffer(memory, dtype=dtype, count=tensor.elements, offset=offset)
    return flat.view(tensor.shape)


def _small_tensor(value: Any) -> Any:
    """The plain data of a small tensor; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    if value.numel() > _SMALL or value.layout != torch.strided or value.dtype not in _DTYPES:
        raise Refused(f"a tensor of {tuple(value.shape)} and {value.dtype} stands where numbers are kept")
    data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return [int(_DTYPES[value.dtype]), list(value.shape), bytes(data.tolist()).hex()]


def _tensor_of(plain: Any) -> torch.Tensor:
    number, shape, data = plain
    dtype = next(t for t, d in _DTYPES.items() if d == number)
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray.fromhex(data), dtype=dtype).view(shape).clone()


_blobs = blob.Blobs((_small_tensor, _tensor_of))


@dataclass
class _Array:
    """A state tensor: its description, and its views once there are arenas."""

    tensor: Tensor
    dtype: torch.dtype
    initial: Callable[[], torch.Tensor]
    number: int = 0
    device: Optional[torch.device] = None  # that of a copy, which the model sees; None: it sees the shared memory
    state: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    next: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    seen: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # what the model sees of *state*

    def carry(self) -> None:
        """Copies S_t to *next*."""
        self.next.copy_(self.state)


@dataclass
class _Sum:
    """A sum: its description, and its view once there are arenas."""

    tensor: Tensor
    dtype: torch.dtype
    number: int = 0
    offset: int = 0  # in *own*
    own: torch.Tensor = field(default_factory=lambda: torch.empty(0))


@dataclass
class _Blob:
    """Numbers that are state, in an array of bytes."""

    array: _Array
    what: str
    place: slice = field(default_factory=lambda: slice(0))  # in *state* and *next*
    seen: bytes = b""
    value: Any = None

    def load(self, memory: mmap.mmap) -> Any:
        """The value in *state* or *next*; it must not be changed, as it is remembered."""
        data = memory[self.place]
        if data != self.seen:
            self.value = _blobs.decode(data)
            self.seen = data
        return self.value

    def store(self, value: Any, memory: mmap.mmap, offset: Optional[int] = None) -> None:
        """Writes a value, to its place or to an offset in other memory."""
        size = self.array.tensor.bytes
        first = self.place.start if offset is None else offset
        memory[first : first + size] = blob.padded(_blobs.encode(value, self.what), size, self.what)


@dataclass
class _Parameter:
    """A parameter. ``part`` is None where no optimizer changes it."""

    name: str
    tensor: torch.nn.Parameter
    array: _Array
    optimizer: Optional[torch.optim.Optimizer] = None
    index: int = -1  # among those that have gradients
    part: int = -1
    gradient: Optional[_Sum] = None
    kept: Dict[str, _Array] = field(default_factory=dict)  # the optimizer's tensors, by key
    number_keys: Tuple[str, ...] = ()
    born: bool = False  # in S_0


@dataclass
class _Buffer:
    """A buffer. ``live`` is the memory that the model sees in a shard."""

    name: str
    module: torch.nn.Module
    key: str
    array: _Array
    live: torch.Tensor
    difference: Optional[_Sum] = None

    def load(self, memory: torch.Tensor) -> None:
        """Has the model see the values."""
        self.live.copy_(memory)
        self.module._buffers[self.key] = self.live


@dataclass
class _UpdatePart:
    """The parameters of a part, and what is kept for them."""

    parameters: List[_Parameter] = field(default_factory=list)
    buffers: List[_Buffer] = field(default_factory=list)
    born: Optional[_Array] = None
    numbers: Optional[_Blob] = None


@dataclass
class _Kept:
    """An object of ``keep=``: its tensors by path, and the rest of its state as numbers."""

    name: str
    object: Any
    tensors: Dict[str, _Array]
    numbers: _Blob


class TorchProgram(Program):
    """A model, its optimizers and what is kept, as the worker of a peer."""

    def __init__(
        self,
        job: jobs.JobBase,
        model: torch.nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        keep: Mapping[str, Any],
    ) -> None:
        self._job = job
        self._model = model
        self._optimizers = list(optimizers)
        self._arrays: List[_Array] = []
        self._sums: List[_Sum] = []
        self._modes = [(m.__dict__, m.training) for m in model.modules()]
        self._refuse_model()
        self._structure = _Structure(model)
        self._parameters = self._find_parameters()
        self._trained = [p for p in self._parameters if p.optimizer is not None]
        if not self._trained:
            raise Refused("no parameter of the model requires a gradient and belongs to the optimizer")
        self._parts = self._divide(job.settings.parts)
        self._buffers = self._find_buffers()
        self._learn()
        self._keep_numbers(keep)
        self._add_sums()
        self._hooks: List[Any] = []
        for parameter in self._trained:
            hook = self._hook_of(parameter)
            self._hooks.append(parameter.tensor.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call,unused-ignore]
            parameter.tensor.grad = None
        self._presence = memoryview(b"")
        self._copies = torch_device.Copies()
        self._shards_verified = 0
        self._has_warned = False
        self._describe()

    # Finding what there is.

    def _refuse_model(self) -> None:
        for name, module in self._model.named_modules():
            kind = type(module).__name__
            if kind in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
                raise Refused(f"the model is wrapped in {kind}: give the plain module, godwit adds the gradients itself")
            if getattr(module, "sparse", False) is True and isinstance(
                module, (torch.nn.Embedding, torch.nn.EmbeddingBag)
            ):
                raise Refused(f"{name}: Embedding(sparse=True) has sparse gradients: leave sparse=True out")
            if (
                isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
                and module.track_running_stats
                and module.momentum is None
            ):
                raise Refused(
                    f"{name}: BatchNorm(momentum=None) keeps a plain average over all batches, which depends on how "
                    "many came before: give a momentum, such as 0.1"
                )
        for tensor_name, tensor in (*self._model.named_parameters(), *self._model.named_buffers()):
            self._refuse_tensor(tensor_name, tensor)

    @staticmethod
    def _refuse_tensor(name: str, tensor: torch.Tensor) -> None:
        if torch.nn.parameter.is_lazy(tensor):
            raise Refused(f"{name} has no shape yet (a lazy module): run the model once before job.run()")
        torch_device.refuse(name, tensor)
        if tensor.layout != torch.strided:
            raise Refused(f"{name} has layout {tensor.layout}: only dense tensors are possible")
        if tensor.dtype not in _DTYPES:
            raise Refused(f"{name} has {tensor.dtype}, which no state can have; use float32 or another real type")
        if tensor.numel() == 0:
            raise Refused(f"{name} has no elements: {tuple(tensor.shape)}")
        if tensor.dim() > 8:
            raise Refused(f"{name} has {tensor.dim()} dimensions, and 8 is the most")
        if name.startswith(_TAKEN_NAMES):
            raise Refused(f"{name}: names that begin with {', '.join(_TAKEN_NAMES)} are godwit's own")

    def _array(
        self, name: str, like: torch.Tensor, part: int, flags: int, initial: Callable[[], torch.Tensor]
    ) -> _Array:
        shape = tuple(like.shape)
        if len(name.encode()) > 255:
            raise Refused(f"the name {name} has more than 255 bytes")
        tensor = Tensor(STATE, _DTYPES[like.dtype], flags, 0, part, shape, name)
        array = _Array(tensor, like.dtype, initial, len(self._arrays))
        self._arrays.append(array)
        return array

    def _blob(self, name: str, what: str, part: int, flags: int, value: Any, least: int = 0) -> _Blob:
        data = _blobs.encode(value, what)
        size = blob.room_for(data, least)
        first = torch.frombuffer(bytearray(blob.padded(data, size, what)), dtype=torch.uint8)
        return _Blob(self._array(name, first, part, flags, lambda: first), what)

    def _sum(
        self, name: str, dtype: torch.dtype, shape: Tuple[int, ...], part: int, flags: SumFlag, bits: int
    ) -> _Sum:
        made = _Sum(Tensor(SUM, _DTYPES[dtype], int(flags), bits, part, shape, name), dtype, len(self._sums))
        self._sums.append(made)
        return made

    def _find_parameters(self) -> List[_Parameter]:
        owners: Dict[int, torch.optim.Optimizer] = {}
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) in owners:
                        raise Refused("a parameter belongs to two optimizers, or twice to one")
                    owners[id(parameter)] = optimizer
        found: List[_Parameter] = []
        for name, tensor in self._model.named_parameters():
            array = self._array(name, tensor, CONSTANT, 0, lambda t=tensor: t.detach())  # type: ignore[misc]
            array.device = tensor.device if torch_device.is_copied(tensor) else None
            parameter = _Parameter(name, tensor, array)
            owner = owners.pop(id(tensor), None)
            if owner is not None and tensor.requires_grad:
                if not tensor.dtype.is_floating_point:
                    raise Refused(f"{name} has {tensor.dtype}, whose gradients cannot be added")
                parameter.optimizer = owner
            found.append(parameter)
        if owners:
            raise Refused(
                f"the optimizer has {len(owners)} parameters that are not in the model: put all into one module "
                "(torch.nn.ModuleDict), so that they have names"
            )
        for index, parameter in enumerate([p for p in found if p.optimizer is not None]):
            parameter.index = index
        return found

    def _divide(self, asked: Optional[int]) -> List[_UpdatePart]:
        """Divides the trained parameters, in their order, into parts of about as many elements each. The division
        is the same for any number of workers."""
        total = sum(p.tensor.numel() for p in self._trained)
        count = asked if asked is not None else max(1, min(_PARTS_MOST, total // _PART_ELEMENTS))
        count = min(count, len(self._trained))
        parts = [_UpdatePart() for _ in range(count)]
        before, number = 0, 0
        for position, parameter in enumerate(self._trained):
            left = len(self._trained) - position
            wanted = min(before * count // total, count - 1)
            number = max(number, min(wanted, number + 1), count - left)
            parameter.part = number
            parameter.array.tensor = _with_part(parameter.array.tensor, number)
            parts[number].parameters.append(parameter)
            before += parameter.tensor.numel()
        return parts

    def _find_buffers(self) -> List[_Buffer]:
        """The buffers that a model saves. Others are made by the program and must stay as they are."""
        found: List[_Buffer] = []
        seen: Dict[int, str] = {}
        last = len(self._parts) - 1
        for prefix, module in self._model.named_modules(remove_duplicate=True):
            for key, tensor in module._buffers.items():
                if tensor is None or key in module._non_persistent_buffers_set:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                if id(tensor) in seen:
                    raise Refused(f"the buffers {seen[id(tensor)]} and {name} are one tensor: register it once")
                seen[id(tensor)] = name
                array = self._array(name, tensor, last, 0, lambda t=tensor: t.detach())  # type: ignore[misc]
                array.device = tensor.device if torch_device.is_copied(tensor) else None
                buffer = _Buffer(name, module, key, array, tensor.detach().clone().contiguous())
                self._parts[last].buffers.append(buffer)
                found.append(buffer)
        self._loose = [
            (f"{prefix}.{key}" if prefix else key, module, key, tensor.detach().clone())
            for prefix, module in self._model.named_modules()
            for key, tensor in module._buffers.items()
            if tensor is not None and key in module._non_persistent_buffers_set
        ]
        return found

    # The optimizer's state, learnt from a step on copies.

    def _learn(self) -> None:
        for optimizer in self._optimizers:
            self._refuse_optimizer(optimizer)
            learnt = _learn_state(optimizer)
            for parameter in self._trained:
                if parameter.optimizer is optimizer:
                    self._take_learnt(parameter, optimizer, learnt[id(parameter.tensor)])
        for number, part in enumerate(self._parts):
            marks = torch.tensor([p.born for p in part.parameters], dtype=torch.uint8)
            part.born = self._array(f"optimizer:born:{number}", marks, number, APPLY_ONLY, lambda m=marks: m)  # type: ignore[misc]
            numbers = {p.name: self._numbers_of(p) for p in part.parameters if p.number_keys}
            if numbers:
                part.numbers = self._blob(
                    f"optimizer:numbers:{number}", "the optimizer's state", number, APPLY_ONLY, numbers
                )

    @staticmethod
    def _refuse_optimizer(optimizer: torch.optim.Optimizer) -> None:
        kind = type(optimizer).__name__
        step = inspect.signature(type(optimizer).step).parameters.get("closure")
        if step is not None and step.default is inspect.Parameter.empty:
            raise Refused(
                f"{kind} evaluates the model itself, by a closure, which no exact sum can serve: use another optimizer"
            )
        if kind == "SparseAdam":
            raise Refused("SparseAdam is for sparse gradients, which cannot be added exactly: use Adam")
        for group in optimizer.param_groups:
            if group.get("capturable"):
                raise Refused(f"{kind}(capturable=True) is for CUDA graphs: leave it out")

    def _take_learnt(self, parameter: _Parameter, optimizer: torch.optim.Optimizer, learnt: Dict[str, Any]) -> None:
        now = optimizer.state.get(parameter.tensor, {})
        parameter.born = len(now) > 0
        numbers: List[str] = []
        for key in sorted(learnt):
            value = learnt[key]
            if not isinstance(value, torch.Tensor):
                numbers.append(key)
                continue
            name = f"optimizer:{key}:{parameter.name}"
            self._refuse_tensor(f"state '{key}' of {parameter.name}", value)
            first = now.get(key)
            like = first if isinstance(first, torch.Tensor) else value
            zeros = torch.zeros(like.shape, dtype=like.dtype)
            kept = first.detach().clone() if isinstance(first, torch.Tensor) else zeros
            parameter.kept[key] = self._array(name, like, parameter.part, APPLY_ONLY, lambda t=kept: t)  # type: ignore[misc]
        parameter.number_keys = tuple(numbers)

    def _numbers_of(self, parameter: _Parameter) -> Dict[str, Any]:
        assert parameter.optimizer is not None
        now = parameter.optimizer.state.get(parameter.tensor, {})
        return {key: now[key] for key in parameter.number_keys if key in now}

    def _group_numbers(self) -> List[List[Dict[str, Any]]]:
        return [
            [
                {key: value for key, value in group.items() if key != "params" and not callable(value)}
                for group in optimizer.param_groups
            ]
            for optimizer in self._optimizers
        ]

    def _keep_numbers(self, keep: Mapping[str, Any]) -> None:
        changes = ONCE_ONLY if self._job.flags & (HAS_ONCE | ONCE_EVALUATED) else CONSTANT
        self._groups = self._blob("optimizer:groups", "the optimizer's param_groups", ALIKE, 0, self._group_numbers())
        self._vars = self._blob("vars:", "job.vars", changes, 0, jobs.vars_of(self._job), _VARS_ROOM)
        self._kept: List[_Kept] = []
        for name, thing in keep.items():
            if type(thing).__name__ == "GradScaler":
                raise Refused(
                    f"keep={name!r}: GradScaler makes infinite gradients as its normal course, at which a job stops: use "
                    "bfloat16 (torch.autocast('cpu', dtype=torch.bfloat16)), which needs no scaling"
                )
            if not hasattr(thing, "state_dict") or not hasattr(thing, "load_state_dict"):
                raise Refused(
                    f"keep={name!r}: {type(thing).__name__} has no state_dict() and load_state_dict(); use job.vars for "
                    "numbers"
                )
            tensors, numbers = _split(thing.state_dict())
            arrays: Dict[str, _Array] = {}
            for path, tensor in tensors.items():
                self._refuse_tensor(f"keep={name!r}: {path}", tensor)
                arrays[path] = self._array(
                    f"keep:{name}:{path}", tensor, changes, 0, lambda t=tensor.detach().clone(): t  # type: ignore[misc]
                )
            room = int(getattr(thing, "godwit_room", 0))  # bytes that its numbers may grow to, where it knows
            held = self._blob(f"keep:{name}", f"the state of keep={name!r}", changes, 0, numbers, room)
            self._kept.append(_Kept(name, thing, arrays, held))

    def _add_sums(self) -> None:
        train, both = SumFlag.TRAIN, SumFlag.TRAIN
        if self._job.settings.eval_every:
            both = SumFlag.TRAIN | SumFlag.EVALUATE
        for p in self._trained:
            p.gradient = self._sum(
                f"sum:gradient:{p.name}", p.tensor.dtype, tuple(p.tensor.shape), p.part,
                train | SumFlag.NORM | SumFlag.BY_WEIGHT, _GRADIENT_BITS,
            )  # fmt: skip
        for b in self._buffers:
            floating = b.live.dtype.is_floating_point
            b.difference = self._sum(
                f"sum:difference:{b.name}", torch.float64 if floating else torch.int64, tuple(b.live.shape),
                len(self._parts) - 1, train | SumFlag.BY_SHARDS if floating else train,
                _GRADIENT_BITS if floating else 0,
            )  # fmt: skip
        self._given = self._sum("sum:given", torch.int64, (len(self._trained),), ALIKE, train, 0)
        self._weight = self._sum("sum:weight", torch.float64, (), CONSTANT, both, _WEIGHT_BITS)
        report = both | SumFlag.REPORT | SumFlag.BY_WEIGHT
        self._loss = self._sum("loss", torch.float64, (), CONSTANT, report, _LOSS_BITS)
        self._reports = {
            name: self._sum(name, torch.float64, (), CONSTANT, report, _LOSS_BITS)
            for name in self._job.settings.reports
        }

    def _describe(self) -> None:
        s = self._job.settings
        count = sum(p.tensor.numel() for p in self._parameters)
        tensors: List[torch.Tensor] = [p.tensor for p in self._parameters]
        options = Options(
            s.shards, s.updates, s.eval_every, s.eval_shards, len(self._parts), s.clip, self._job.flags,
            self._weight.number, torch_device.workers(tensors),
            f"{type(self._model).__name__}, {count:,} parameters", "", identity.data_text(s.data),
        )  # fmt: skip
        lines = identity.lines(s.data)
        lines.update(self._job.lines)
        device = torch_device.identity(tensors)
        if device:
            lines["device"] = device
        lines["optimizer"] = ", ".join(type(o).__qualname__ for o in self._optimizers)
        self._warn()
        self.description = Description(
            options, [a.tensor for a in self._arrays], [t.tensor for t in self._sums], lines, can_fork()
        )
        self.layout = Layout(self.description)

    def _warn(self) -> None:
        """Warns of what most likely is a mistake, once on each peer."""
        if sessions.is_further_worker():
            return
        keeps = any(hasattr(kept.object, name) for kept in self._kept for name in ("get_last_lr", "scheduler"))
        for optimizer in self._optimizers:
            if getattr(optimizer.step, "_wrapped_by_lr_sched", False) and not keeps:
                sessions.warn(
                    f"{type(optimizer).__name__} has a learning rate scheduler that is not in keep=: what the scheduler counts is "
                    'no state, and is lost with its process. Give keep={"scheduler": scheduler}'
                )
        threads = sessions.settings.threads
        if torch.get_num_threads() != threads:
            sessions.warn(
                f"the script has PyTorch compute with {torch.get_num_threads()} threads, where --threads is {threads}: leave "
                "set_num_threads out, and give --threads"
            )

    # Memory.

    def initial(self, memory: mmap.mmap) -> None:
        for array, offset in zip(self._arrays, self.layout.state):
            view = _view(memory, array.tensor, offset, array.dtype)
            view.copy_(array.initial())
            del view  # the memory is closed behind this

    def forget(self) -> None:
        for array in self._arrays:
            array.initial = _forgotten
        for p in self._parameters:  # one element stands for all, so that a parameter keeps its shape
            p.tensor.data = torch.zeros(1, dtype=p.tensor.dtype).expand(p.tensor.shape)
        for optimizer in self._optimizers:
            optimizer.state.clear()

    def attach(self, arenas: Arenas) -> None:
        self.forget()
        for array, offset in zip(self._arrays, self.layout.state):
            array.state = array.seen = _view(arenas.state, array.tensor, offset, array.dtype)
            if array.device is not None:
                array.seen = self._copies.add(array.tensor.name, array.state, array.device)
            array.next = _view(arenas.next, array.tensor, offset, array.dtype)
        for made, offset in zip(self._sums, self.layout.sums):
            made.offset = offset
            made.own = _view(arenas.own, made.tensor, offset, made.dtype)
        for held in (self._groups, self._vars, *(k.numbers for k in self._kept), *(p.numbers for p in self._parts)):
            if held is not None:
                first = self.layout.state[held.array.number]
                held.place = slice(first, first + held.array.tensor.bytes)
        self._arenas = arenas
        self._copies.pin(arenas.state, arenas.own)
        self._copied = [p for p in self._parameters if p.array.device is not None]
        self._presence = memoryview(arenas.own)[: len(self._sums)]
        self._no_presence = bytes(len(self._sums))
        for parameter in self._parameters:
            parameter.tensor.data = parameter.array.seen
        self._addresses = [p.tensor.data_ptr() for p in self._parameters]

    # What the model sees.

    def _see_state(self, generation: int) -> None:
        """Has everything see S_t: parameters and buffers, and the numbers in groups, kept objects and variables."""
        self._copies.refresh(generation)
        torch.clear_autocast_cache()  # which a `with torch.autocast` around job.run() fills with copies of parameters
        if not self._sees_state():
            for p in self._parameters:
                p.tensor.data = p.array.seen
        for b in self._buffers:
            b.load(b.array.seen)
        self._set_numbers(next=False)

    def _sees_state(self) -> bool:
        """Whether all parameters see S_t."""
        return [p.tensor.data_ptr() for p in self._parameters] == self._addresses

    def _set_numbers(self, next: bool) -> None:
        memory = self._arenas.next if next else self._arenas.state
        for optimizer, held in zip(self._optimizers, self._groups.load(memory)):
            for group, values in zip(optimizer.param_groups, held):
                group.update(_fresh(values))
        jobs.set_vars(self._job, _fresh(self._vars.load(memory)))
        for kept in self._kept:
            tensors = {path: array.next if next else array.state for path, array in kept.tensors.items()}
            kept.object.load_state_dict(_join(_fresh(kept.numbers.load(memory)), tensors))

    def _set_modes(self, training: bool) -> None:
        for attributes, mode in self._modes:
            attributes["training"] = mode and training

    # Shards.

    def shard(self, request: Shard) -> None:
        job = self._job
        assert job.shard_function is not None
        training = request.phase == Phase.TRAIN
        self._presence[:] = self._no_presence
        self._see_state(request.generation)
        self._set_modes(training)
        versions = [p.tensor._version for p in self._copied]
        for parameter in self._trained:
            parameter.tensor.grad = None
        context = jobs.context_of(job.seed, request.step, request.update, request.phase, request.shard, request.shards)
        with nullcontext() if training else torch.no_grad():
            loss, weight, reports = self._answer(job.shard_function(context))
        if training and weight != 0:
            if loss.grad_fn is None and not any(self._presence):
                raise Refused("the loss that the shard returns has no gradient: return the tensor, not a number")
            if request.step == 0 and request.shard == 0 and weight > 1 and not self._has_warned and is_mean(loss):
                self._has_warned = True
                sessions.warn(
                    f"the loss of a shard looks like a mean, and its weight is {weight:g}: a shard returns the sum of its "
                    'samples\' losses (reduction="sum") and their number. As it is, gradients are divided by that number twice'
                )
            if loss.grad_fn is not None:
                self._backward(loss, job.shard_function)
        self._copies.wait()
        self._contribute(training, loss, weight, reports)
        self._verify(training)
        for p, version in zip(self._copied, versions):
            if p.tensor._version != version:
                raise Refused(f"the shard writes to {p.name}, which is part of the state: only @job.update may")
        if self._shards_verified < jobs.SHARDS_VERIFIED or sessions.IS_CHECKED:
            self._verify_numbers()
            self._verify_copies()
            self._shards_verified += 1

    @staticmethod
    def _backward(loss: torch.Tensor, function: Callable[..., Any]) -> None:
        try:
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        except RuntimeError as error:
            if "backward through the graph a second time" not in str(error):
                raise
            told = Refused(
                "the shard calls backward() itself, or its graph reaches into that of an earlier one: return the loss, and "
                "leave out backward, zero_grad and the optimizer's step, which are done for you"
            )
            code = getattr(function, "__code__", None)
            told.place = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
            raise told from error

    def _answer(self, answer: Any) -> Tuple[torch.Tensor, float, Dict[str, Any]]:
        values = answer if isinstance(answer, tuple) else (answer, 1)
        if not 2 <= len(values) <= 3 or not isinstance(values[0], torch.Tensor) or values[0].numel() != 1:
            raise Refused(
                "the shard function must return the sum of its samples' losses, as a tensor of one element, and their "
                f"number; it returned {_shown(answer)}"
            )
        weight = float(values[1])
        if not 0 <= weight < 1 << 40:
            raise Refused(f"the shard function returned the weight {weight}; it must be 0 or more")
        reports = dict(values[2]) if len(values) == 3 else {}
        if set(reports) != set(self._reports):
            raise Refused(
                f"the shard function returned the reports {sorted(reports)}, but the job has "
                f"reports={sorted(self._reports)}"
            )
        return values[0], weight, reports

    def _contribute(self, training: bool, loss: torch.Tensor, weight: float, reports: Dict[str, Any]) -> None:
        self._put(self._weight, weight)
        self._put(self._loss, loss.item())
        for name, value in reports.items():
            self._put(self._reports[name], float(value))
        if not training:
            return
        count = len(self._trained)  # whose gradients are the first sums
        struct.pack_into(f"={count}q", self._arenas.own, self._given.offset, *self._presence[:count])
        self._presence[self._given.number] = 1
        for b in self._buffers:
            self._put_difference(b)

    def _put(self, to: _Sum, value: float) -> None:
        _DOUBLE.pack_into(self._arenas.own, to.offset, value)
        self._presence[to.number] = 1

    def _put_difference(self, b: _Buffer) -> None:
        now = b.module._buffers[b.key]
        if now is None or now.shape != b.live.shape or now.dtype != b.live.dtype:
            raise Refused(f"the shard changes the shape or type of the buffer {b.name}, which is part of the state")
        if torch.equal(now, b.array.seen):
            return
        assert b.difference is not None
        wide = b.difference.dtype
        b.difference.own.copy_(now.detach().to(wide) - b.array.seen.to(wide))
        self._presence[b.difference.number] = 1

    def _verify(self, training: bool) -> None:
        """Refuses what a shard must not do."""
        if not training:
            for b in self._buffers:
                now = b.module._buffers[b.key]
                if now is None or not torch.equal(now, b.array.seen):
                    raise Refused(f"an evaluation changes the buffer {b.name}, which only training may")
        for name, module, key, first in self._loose:
            now = module._buffers.get(key)
            if now is None or now.shape != first.shape or not torch.equal(now, first):
                raise Refused(
                    f"the shard changes the buffer {name}, which is not saved with the model (persistent=False) and so "
                    "is no part of the state: register it with persistent=True"
                )
        if not self._sees_state():
            name = next(p.name for p in self._parameters if p.tensor.data_ptr() != p.array.seen.data_ptr())
            raise Refused(f"the shard replaces the parameter {name}; only @job.update may change the model")
        self._structure.verify()

    def _verify_copies(self) -> None:
        """Refuses a write to a parameter's copy on a GPU, which is no fault as one to shared memory is."""
        name = self._copies.differs()
        if name:
            raise Refused(f"the shard writes to {name}, which is part of the state: only @job.update may change the model")

    def _verify_numbers(self) -> None:
        """Refuses a change of numbers, which would be lost. It takes time, so that a process does it for its first
        shards, and for all in a check."""
        held = [(self._groups, self._group_numbers()), (self._vars, jobs.vars_of(self._job))]
        held += [(kept.numbers, _split(kept.object.state_dict())[1]) for kept in self._kept]
        for numbers, now in held:
            if _blobs.encode(now, numbers.what) != numbers.seen.rstrip(b"\0"):
                raise Refused(
                    f"the shard changes {numbers.what}, which is part of the state: only @job.update may change it"
                )

    def _hook_of(self, parameter: _Parameter) -> Callable[[torch.Tensor], None]:
        def hand_over(tensor: torch.Tensor) -> None:
            gradient, to = tensor.grad, parameter.gradient
            if gradient is None or to is None:
                return
            if gradient.layout is not torch.strided:
                raise Refused(f"{parameter.name} has a sparse gradient, which cannot be added: use a dense layer")
            adds = bool(self._presence[to.number])
            if gradient.is_cuda:
                self._copies.take_gradient(to.own, gradient, adds)
            elif adds:
                to.own.add_(gradient)
            else:
                to.own.copy_(gradient)
            if not adds:
                self._presence[to.number] = 1
            tensor.grad = None

        return hand_over

    # Updates.

    def part(self, request: Part) -> None:
        part = self._parts[request.part]
        self._see_state(request.generation)
        self._set_modes(True)
        for optimizer in self._optimizers:
            optimizer.state.clear()
        for p in self._trained:
            p.tensor.grad = None
        assert part.born is not None
        born = part.born.state.tolist()
        numbers = part.numbers.load(self._arenas.state) if part.numbers is not None else {}
        for p, is_born in zip(part.parameters, born):
            self._bring(p, bool(is_born), numbers.get(p.name, {}), bool(self._given.own[p.index] > 0))
        jobs.seed_update(self._job.seed, request.step, request.part)
        for optimizer in self._optimizers:
            if any(p.optimizer is optimizer and p.tensor.grad is not None for p in part.parameters):
                self._step(optimizer)
        self._take_back(part)
        copy_at = self.layout.copies[self._groups.array.number]
        self._groups.store(self._group_numbers(), self._arenas.own, copy_at)  # the peer compares those of all parts
        for b in part.buffers:
            self._renew(b, request.totals.shards)

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the optimizer's step; the parameters of the part have their gradients."""
        optimizer.step()

    def _bring(self, p: _Parameter, is_born: bool, numbers: Dict[str, Any], given: bool) -> None:
        """Puts a parameter, its gradient and its optimizer's state to where the step finds and writes them."""
        assert p.optimizer is not None and p.gradient is not None
        p.array.carry()
        p.tensor.data = p.array.next
        for array in p.kept.values():
            array.carry()
        if is_born:
            state: Dict[str, Any] = {key: array.next for key, array in p.kept.items()}
            state.update(copy.deepcopy(numbers))
            p.optimizer.state[p.tensor] = state
        if given:
            p.tensor.grad = p.gradient.own

    def _take_back(self, part: _UpdatePart) -> None:
        """Copies to *next* what the step has put elsewhere."""
        assert part.born is not None
        numbers: Dict[str, Any] = {}
        for position, p in enumerate(part.parameters):
            assert p.optimizer is not None
            if p.tensor.data_ptr() != p.array.next.data_ptr():
                p.array.next.copy_(p.tensor.detach())
            state = p.optimizer.state.get(p.tensor, {})
            self._take_state(p, state)
            part.born.next[position] = 1 if state else 0
            if p.number_keys:
                numbers[p.name] = {key: state[key] for key in p.number_keys if key in state}
            p.tensor.grad = None
        if part.numbers is not None:
            part.numbers.store(numbers, self._arenas.next)

    def _take_state(self, p: _Parameter, state: Mapping[str, Any]) -> None:
        for key, value in state.items():
            array = p.kept.get(key)
            if array is None and key in p.number_keys and not isinstance(value, torch.Tensor):
                continue
            if array is None or not isinstance(value, torch.Tensor):
                raise Refused(
                    f"the optimizer has made a new '{key}' for {p.name} in a later step than the first; its state must "
                    "have its shape from the beginning"
                )
            if value.shape != array.next.shape or value.dtype != array.dtype:
                raise Refused(f"the optimizer has changed shape or type of its '{key}' for {p.name}")
            if value.data_ptr() != array.next.data_ptr():
                array.next.copy_(value.detach())

    def _present_shards(self, shards: int) -> int:
        """How many of the shards of the update that is computed had samples."""
        return shards

    def _renew(self, b: _Buffer, shards: int) -> None:
        """The new value of a buffer: S_t and the mean of what the shards have added."""
        assert b.difference is not None
        total, state = b.difference.own, b.array.state
        present = self._present_shards(shards)
        if b.difference.dtype == torch.float64:  # the total is divided by all shards
            b.array.next.copy_(state.double() + (total if present == shards else total * (shards / present)))
            return
        mean = torch.div(total, present, rounding_mode="floor")
        if not torch.equal(mean * present, total):
            raise Refused(
                f"the buffer {b.name} has whole numbers, which the shards change by different amounts; a mean of them is "
                "no whole number. Make it a float, or a sum of your own in reports="
            )
        b.array.next.copy_(state.long() + mean)

    def once(self, request: Once) -> bool:
        job = self._job
        self._copies.refresh(request.generation)
        self._set_modes(True)
        for p in self._parameters:
            p.tensor.grad = None
            p.tensor.data = self._shown_next(p) if p.part >= 0 else p.array.seen
        for b in self._buffers:
            b.load(b.array.next)
        self._set_numbers(next=True)
        for optimizer in self._optimizers:
            optimizer.state.clear()
            optimizer._opt_called = True  # type: ignore[attr-defined] # a scheduler warns where no step came before its own
        for part in self._parts:
            self._show_optimizer(part)
        context = jobs.UpdateContext(
            request.step, request.update, dict(request.reports), request.totals.weight, request.totals.norm
        )
        jobs.seed_update(job.seed, request.step, -1)
        with torch.no_grad():
            job.function_once(request.phase)(context)
        self._store_all()
        return bool(context.stop)

    def _shown_next(self, p: _Parameter) -> torch.Tensor:
        """What the update function sees of a parameter that was changed. Its copy is made anew for the next shard."""
        if p.array.device is None:
            return p.array.next
        self._copies.forget()
        p.array.seen.copy_(p.array.next)
        return p.array.seen

    def _show_optimizer(self, part: _UpdatePart) -> None:
        assert part.born is not None
        numbers = part.numbers.load(self._arenas.next) if part.numbers is not None else {}
        for p, is_born in zip(part.parameters, part.born.next.tolist()):
            assert p.optimizer is not None
            if is_born:
                state: Dict[str, Any] = {key: array.next for key, array in p.kept.items()}
                state.update(copy.deepcopy(numbers.get(p.name, {})))
                p.optimizer.state[p.tensor] = state

    def _store_all(self) -> None:
        """Writes to *next* what the update function has left."""
        for part in self._parts:
            self._take_back(part)
        for p in self._parameters:
            if p.part < 0 and p.tensor.data_ptr() != p.array.seen.data_ptr():
                raise Refused(f"the update replaces {p.name}, which no optimizer trains, and which is constant therefore")
        for b in self._buffers:
            now = b.module._buffers[b.key]
            if now is None or now.shape != b.live.shape:
                raise Refused(f"the update changes the shape of the buffer {b.name}")
            b.array.next.copy_(now.detach())
        self._groups.store(self._group_numbers(), self._arenas.next)
        self._vars.store(jobs.vars_of(self._job), self._arenas.next)
        for kept in self._kept:
            tensors, numbers = _split(kept.object.state_dict())
            if {k: (t.shape, t.dtype) for k, t in tensors.items()} != {
                k: (a.next.shape, a.dtype) for k, a in kept.tensors.items()
            }:
                raise Refused(f"keep={kept.name!r} has changed which tensors it has, or their shapes")
            for path, tensor in tensors.items():
                if tensor.data_ptr() != kept.tensors[path].next.data_ptr():
                    kept.tensors[path].next.copy_(tensor.detach())
            kept.numbers.store(numbers, self._arenas.next)

    # Behind steps.

    def after(self, request: After) -> None:
        assert self._job.after_function is not None
        self._see_state(request.generation)
        self._set_modes(False)
        with torch.no_grad():
            self._job.after_function(
                jobs.AfterContext(request.step, request.update, request.phase == Phase.TRAIN, dict(request.reports))
            )

    def finish(self, request: Finish) -> None:
        """The script goes on with the final state in memory that can be written to."""
        self._see_state(request.generation)
        self._set_modes(True)
        while self._hooks:
            self._hooks.pop().remove()
        for p in self._parameters:
            p.tensor.data = p.array.seen.clone()
            p.tensor.grad = None
            if p.optimizer is not None:
                p.optimizer.state.pop(p.tensor, None)
        for part in self._parts:
            assert part.born is not None
            numbers = part.numbers.load(self._arenas.state) if part.numbers is not None else {}
            for p, is_born in zip(part.parameters, part.born.state.tolist()):
                p.gradient = None
                if is_born and p.optimizer is not None:
                    state: Dict[str, Any] = {k: _given_to(p, k, array.state.clone()) for k, array in p.kept.items()}
                    state.update(copy.deepcopy(numbers.get(p.name, {})))
                    p.optimizer.state[p.tensor] = state


def _given_to(p: _Parameter, key: str, value: torch.Tensor) -> torch.Tensor:
    """A tensor of the optimizer where PyTorch keeps it: beside the parameter, except for counters of steps."""
    assert p.optimizer is not None
    fused = any(group.get("fused") and any(q is p.tensor for q in group["params"]) for group in p.optimizer.param_groups)
    return value if key == "step" and not fused else value.to(p.tensor.device)


_PASSED_ON = ("ToCopyBackward", "ViewBackward", "CloneBackward", "SqueezeBackward", "ReshapeAliasBackward")


def is_mean(loss: torch.Tensor) -> bool:
    """Whether the last operation of a loss is a mean: ``.mean()``, or a loss function with ``reduction="mean"``."""
    node: Any = loss.grad_fn
    while node is not None and type(node).__name__.startswith(_PASSED_ON):
        node = node.next_functions[0][0]
    return type(node).__name__.startswith("MeanBackward") or getattr(node, "_saved_reduction", 0) == 1


def _forgotten() -> torch.Tensor:
    raise Error("the initial state was asked for behind the beginning")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_shown(v) for v in value) + ")"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return type(value).__name__


def _with_part(t: Tensor, part: int) -> Tensor:
    return Tensor(t.role, t.dtype, t.flags, t.frac_bits, part, t.shape, t.name)


class _Structure:
    """Which parameters and buffers a model has, for a look behind every shard that takes little time."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        modules = list(model.modules())
        self._parameter_tables = [m._parameters for m in modules]
        self._buffer_tables = [m._buffers for m in modules]
        self._child_tables = [m._modules for m in modules]
        self._parameters = _values(self._parameter_tables)
        self._children = _values(self._child_tables)
        self._buffer_count = self._count(self._buffer_tables)

    @staticmethod
    def _count(tables: Sequence[Mapping[str, Any]]) -> int:
        return sum(map(len, tables))

    def verify(self) -> None:
        """Raises Refused where there are other parameters than at first, or more or fewer buffers."""
        now, children = _values(self._parameter_tables), _values(self._child_tables)
        parameters, buffers = len(now), self._count(self._buffer_tables)
        if len(children) != len(self._children) or not all(map(operator.is_, children, self._children)):
            found = list(self._model.modules())
            parameters, buffers = self._count([m._parameters for m in found]), self._count([m._buffers for m in found])
        if parameters != len(self._parameters) or buffers != self._buffer_count:
            raise Refused("the shard adds or removes a parameter or a buffer: the model must stay as job.run() saw it")
        if not all(map(operator.is_, now, self._parameters)):
            raise Refused("the shard replaces a parameter; only @job.update may change the model")


def _values(tables: Sequence[Mapping[str, Any]]) -> List[Any]:
    """The values of all tables, one behind the other."""
    return list(chain.from_iterable(map(dict.values, tables)))  # type: ignore[arg-type]


def _learn_state(optimizer: torch.optim.Optimizer) -> Dict[int, Dict[str, Any]]:
    """The state that a first step makes, by id of the parameter. The step is made on copies of the parameters,
    and the optimizer is left as it was. Hooks and wrappers of the step (a scheduler's) are not run."""
    groups, state = optimizer.param_groups, optimizer.state
    copies: Dict[int, torch.nn.Parameter] = {}
    stand_in: List[Dict[str, Any]] = []
    for group in groups:
        other = {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
        other["params"] = []
        for parameter in group["params"]:
            double = torch.nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
            double.grad = torch.zeros_like(double) if parameter.requires_grad else None
            copies[id(parameter)] = double
            other["params"].append(double)
        stand_in.append(other)
    made: Any = defaultdict(dict)
    for group in groups:
        for parameter in group["params"]:
            if parameter in state:
                made[copies[id(parameter)]] = copy.deepcopy(dict(state[parameter]))
    generator = torch.get_rng_state()
    try:
        optimizer.param_groups, optimizer.state = stand_in, made
        type(optimizer).step(optimizer)
        return {id_: dict(made[double]) if double in made else {} for id_, double in copies.items()}
    finally:
        optimizer.param_groups, optimizer.state = groups, state
        torch.set_rng_state(generator)


_IMMUTABLE = frozenset((float, int, bool, str, type(None), bytes))


def _fresh(value: Any) -> Any:
    """A copy of decoded numbers that may be changed; faster than ``copy.deepcopy``, as it is made for every shard."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {key: inner if type(inner) in _IMMUTABLE else _fresh(inner) for key, inner in value.items()}
    if kind is list:
        return [inner if type(inner) in _IMMUTABLE else _fresh(inner) for inner in value]
    if kind is tuple:
        return tuple([inner if type(inner) in _IMMUTABLE else _fresh(inner) for inner in value])
    return copy.deepcopy(value)


_MARK = "\0tensor"


def _split(state: Any) -> Tuple[Dict[str, torch.Tensor], Any]:
    """Takes the tensors out of a nested state; a mark stands for each. Small tensors stay among the numbers."""
    tensors: Dict[str, torch.Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, torch.Tensor) and value.numel() > _SMALL:
            tensors[path] = value
            return [_MARK, path]
        if isinstance(value, dict) and type(value).__module__ in ("builtins", "collections"):
            made = copy.copy(value)
            for key, inner in value.items():
                made[key] = walk(inner, f"{path}.{key}" if path else str(key))
            return made
        if type(value) in (list, tuple):
            return type(value)(walk(inner, f"{path}.{i}" if path else str(i)) for i, inner in enumerate(value))
        return value

    return tensors, walk(state, "")


def _join(numbers: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """The inverse of ``_split``."""
    if isinstance(numbers, list) and len(numbers) == 2 and numbers[0] == _MARK:
        return tensors[numbers[1]]
    if isinstance(numbers, dict):
        for key, inner in numbers.items():
            numbers[key] = _join(inner, tensors)
        return numbers
    if type(numbers) in (list, tuple):
        return type(numbers)(_join(inner, tensors) for inner in numbers)
    return numbers


class Job(jobs.JobBase):
    """A training of a PyTorch model.

    Args:
        model: the module whose parameters and buffers are the state. Everything that is trained is in it.
        optimizer: an optimizer of its parameters, or a list of some. It may have made no step yet.
        shards: pieces of work in an update, 1 to 1,048,575. More peers than shards find nothing to do.
        updates: updates of the whole job; 0: it ends when the update function says so.
        clip: the most that the norm of the mean gradient may be; None: it is not clipped.
        eval_every, eval_shards: an evaluation after every so many updates, in so many shards.
        data: paths whose contents must be equal on all peers.
        keep: further objects with ``state_dict()`` and ``load_state_dict()`` that are state, by name: schedulers,
            averages of weights. The update function may change them.
        reports: names of further sums that shards return, in a dict; they are divided by the weight and shown.
        parts: parts of an update that workers compute at the same time. None: one for each million of parameters.
            An optimizer that mixes parameters needs 1.
        probe: a function without arguments, whose value (numbers, tensors, arrays) all workers must agree on, fresh
            or used, on all peers; or True, for operations of the libraries that are loaded (probe.py). It may not
            depend on the state.

    Raises Error for arguments that are not possible; the text names the argument.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any,
        *,
        shards: int,
        updates: int = 0,
        clip: Optional[float] = None,
        eval_every: int = 0,
        eval_shards: int = 0,
        data: Sequence[Any] = (),
        keep: Optional[Mapping[str, Any]] = None,
        reports: Sequence[str] = (),
        parts: Optional[int] = None,
        probe: Union[bool, Callable[[], Any]] = False,
    ) -> None:
        super().__init__(
            jobs.check_settings(shards, updates, clip, eval_every, eval_shards, data, reports, parts), probe
        )
        if not isinstance(model, torch.nn.Module):
            raise Error(f"Job: the model is a {type(model).__name__}; it must be a torch.nn.Module")
        optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        for one in optimizers:
            if not isinstance(one, torch.optim.Optimizer):
                raise Error(f"Job: the optimizer is a {type(one).__name__}; it must be one of torch.optim's kind")
        self.model = model
        self.optimizers: List[torch.optim.Optimizer] = optimizers
        self.keep: Dict[str, Any] = dict(keep or {})

    def program(self) -> TorchProgram:
        return TorchProgram(self, self.model, self.optimizers, self.keep)


__all__ = ["Job", "TorchProgram"]
