"""Trains by plain PyTorch and by a job's program without a peer, and compares bytes; and builds what is refused.

    direct.py (optimizers | refusals | warnings)...
"""

import mmap
import sys

import godwit

import torch
import torch.nn.functional as F
from godwit import protocol, torch_device, torch_program, worker
from torch import nn

x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(2, 2)

    def forward(self, values):
        return self.b(torch.tanh(self.a(values)))


OPTIMIZERS = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "SGD nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.1, lr_decay=0.01),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.05),
    "groups": lambda p: torch.optim.AdamW([{"params": p[:2], "lr": 0.1}, {"params": p[2:], "weight_decay": 0.0}], lr=0.01),
}


def build(make, seed=0):
    torch.manual_seed(seed)
    net = Net()
    return net, make(list(net.parameters()))


def loss_of(net):
    return F.cross_entropy(net(x), y, reduction="sum")


def plain(make, updates):
    """The states after each update, by a loop as people write it."""
    net, optimizer = build(make)
    for _ in range(updates):
        optimizer.zero_grad()
        loss_of(net).backward()
        for p in net.parameters():
            if p.grad is not None:  # as the sum of one shard comes back: in fixed point, and divided by its weight
                q = torch.round(p.grad.double() * 2**40)
                p.grad = (q * (2.0**-40 / 48)).float()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def by_program(make, updates, parts):
    """The same by the program of a job: one shard an update."""
    net, optimizer = build(make)
    job = godwit.Job(net, optimizer, shards=1, updates=updates, parts=parts)
    job.shard(lambda s: (loss_of(net), 48))
    program = job.program()
    layout, options = program.layout, program.description.options
    state, other = mmap.mmap(-1, layout.state_bytes), mmap.mmap(-1, layout.state_bytes)
    own = mmap.mmap(-1, layout.own_bytes)
    program.initial(state)
    program.forget()
    assert all(p.untyped_storage().nbytes() <= 4 for p in net.parameters()), "a template keeps the parameters' memory"
    program.attach(worker.Arenas(state, other, own))
    for update in range(updates):
        program.shard(protocol.Shard(update, update, protocol.Phase.TRAIN, update + 1, 0, 1))
        present = list(own[: len(program.description.sums)])
        kept = own[:]
        for part in range(options.parts):
            own[:] = kept
            for tensor, offset, there in zip(program.description.sums, layout.sums, present):
                if tensor.dtype == protocol.DType.F32:
                    view = torch.frombuffer(own, dtype=torch.float32, count=tensor.elements, offset=offset)
                    q = torch.round(view.double() * 2**40) if there else torch.zeros(tensor.elements, dtype=torch.float64)
                    view.copy_((q * (2.0**-40 / 48)).float())
            program.part(protocol.Part(update, update, update + 1, part, protocol.Totals(1, 48.0, 1.0, 1.0)))
            for number, offset in layout.copies.items():
                size = program.description.state[number].bytes
                other[layout.state[number] : layout.state[number] + size] = own[offset : offset + size]
        for tensor, offset in zip(program.description.state, layout.state):
            if tensor.part < options.parts or tensor.part == protocol.ALIKE:
                state[offset : offset + tensor.bytes] = other[offset : offset + tensor.bytes]
    program.finish(protocol.Finish(updates, updates, updates + 1, {}))
    return [p.detach().clone() for p in net.parameters()]


def optimizers():
    for name, make in OPTIMIZERS.items():
        if "Adafactor" in name and not hasattr(torch.optim, "Adafactor"):
            continue
        expected = plain(make, 5)
        for parts in (1, 3):
            found = by_program(make, 5, parts)
            same = all(torch.equal(a, b) for a, b in zip(expected, found))
            print(f"{name}, {parts} parts: {'same' if same else 'DIFFERS'}")


class Renewed(Net):
    """A net that makes a parameter anew while it computes."""

    def forward(self, values):
        self.b.weight = nn.Parameter(self.b.weight.detach().clone())
        return super().forward(values)


class Growing(Net):
    def forward(self, values):
        self.more = nn.Parameter(torch.ones(1))
        return super().forward(values)


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(2), persistent=False)

    def forward(self, values):
        self.calls += 1
        return super().forward(values)


def attempt(name, make_net, make_optimizer=None, shard=None, **arguments):
    """Prints how a job of such parts is refused, at its beginning or at its first shard, or what is warned of."""
    warned = []
    torch_program.sessions.warn = warned.append
    try:
        net = make_net()
        optimizer = (make_optimizer or (lambda p: torch.optim.SGD(p, lr=0.1)))(list(net.parameters()))
        job = godwit.Job(net, optimizer, shards=1, **arguments)
        job.shard(lambda s: shard(net) if shard else (net(x).sum(), 48))
        program = job.program()
        layout = program.layout
        state = mmap.mmap(-1, layout.state_bytes)
        program.initial(state)
        program.attach(worker.Arenas(state, mmap.mmap(-1, layout.state_bytes), mmap.mmap(-1, layout.own_bytes)))
        program.shard(protocol.Shard(0, 0, protocol.Phase.TRAIN, 1, 0, 1))
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
    else:
        print(f"{name}: ACCEPTED {' '.join(warned)}")


def written(net):
    """A shard that computes with the model as it should, and then writes to it."""
    loss = net(x).sum()
    with torch.no_grad():
        net.a.bias.add_(1)
    return loss, 48


def written_data(net):
    net.b.weight.data[0, 0] += 1
    return net(x).sum(), 48


class Closure(torch.optim.SGD):
    def step(self, closure):
        return super().step(closure)


class Scaler:
    def state_dict(self):
        return {}

    load_state_dict = None


Scaler.__name__ = "GradScaler"


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = Net()


Wrapped.__name__ = "DistributedDataParallel"


def sequence(*modules):
    return lambda: nn.Sequential(*[m() for m in modules])


def scheduled(parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return optimizer


def backward(net):
    loss = loss_of(net)
    loss.backward()
    return loss, 48


def with_two_threads():
    torch.set_num_threads(2)
    return Net()


def warnings():
    attempt("sum", Net, shard=lambda n: (loss_of(n), 48))
    attempt("mean of a sum", Net, shard=lambda n: (F.cross_entropy(n(x), y) * 48, 48))
    attempt("one", Net, shard=lambda n: F.cross_entropy(n(x), y))
    attempt("mean", Net, shard=lambda n: (F.cross_entropy(n(x), y), 48))
    attempt("mean of bfloat16", Net, shard=lambda n: (F.mse_loss(n(x).bfloat16(), torch.ones(48, 3).bfloat16()).float(), 48))
    attempt("mean by hand", Net, shard=lambda n: (n(x).mean(), 48))
    attempt("scheduler", Net, scheduled)
    attempt("backward", Net, shard=backward)
    attempt("data", Net, data=lambda: 3)
    attempt("threads", with_two_threads)


def refusals():
    attempt("embedding", sequence(lambda: nn.Embedding(4, 4, sparse=True)))
    attempt("functional embedding", sequence(lambda: nn.Linear(4, 4)), shard=lambda n: (
        F.embedding(torch.tensor([1]), n[0].weight, sparse=True).sum(), 1))  # fmt: skip
    attempt("batch norm", sequence(lambda: nn.BatchNorm1d(6, momentum=None)))
    attempt("closure", Net, lambda p: Closure(p, lr=0.1))
    attempt("lbfgs", Net, lambda p: torch.optim.LBFGS(p))
    attempt("scaler", Net, keep={"scaler": Scaler()})
    attempt("keep", Net, keep={"it": object()})
    attempt("wrapped", Wrapped)
    attempt("lazy", sequence(lambda: nn.LazyLinear(4)))
    attempt("renewed", Renewed)
    attempt("growing", Growing)
    attempt("buffer", Counting)
    attempt("number", Net, shard=lambda n: (3.0, 48))
    attempt("detached", Net, shard=lambda n: (n(x).sum().detach(), 48))
    attempt("weight", Net, shard=lambda n: (n(x).sum(), -1))
    attempt("reports", Net, shard=lambda n: (n(x).sum(), 48, {"right": 1}))
    attempt("elsewhere", Net, lambda p: torch.optim.SGD([*p, nn.Parameter(torch.ones(1))], lr=0.1))
    attempt("nothing", lambda: Net().requires_grad_(False))
    attempt("complex", lambda: nn.ParameterList([nn.Parameter(torch.ones(1, dtype=torch.complex64))]))
    attempt("nondeterministic", sequence(lambda: nn.Linear(6, 2)), shard=lambda n: (
        torch.zeros(3).put_(torch.tensor([0, 0]), n[0].bias, accumulate=False).sum(), 1))  # fmt: skip
    torch_device._ALL_ARE_COPIED = True  # as on a GPU, where a write is no fault
    attempt("written", Net, shard=written)
    attempt("written data", Net, shard=written_data)
    torch_device._ALL_ARE_COPIED = False
    for arguments in ({"updates": -1}, {"clip": -1.0}, {"eval_every": 3}, {"parts": 0}, {"reports": ["loss"]}):
        attempt(str(arguments), Net, **arguments)


assert torch_program.Job is godwit.Job
for what in sys.argv[1:]:
    print(f"== {what}")
    {"optimizers": optimizers, "refusals": refusals, "warnings": warnings}[what]()
