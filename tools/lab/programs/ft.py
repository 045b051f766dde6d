"""A replica of a training under torchft, whose step takes SLEEP_MS beside almost nothing: what is compared with noop.py.

    ft.py NUMBER SLEEP_MS        with TORCHFT_LIGHTHOUSE in the environment

It says `ready` when it begins, and `step TIME` for each step that it has committed.
"""
import sys
import time
from datetime import timedelta

import torch
import torchft

number, sleep_ms = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
model = torch.nn.Linear(1, 1000, bias=False)
store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def load(held):
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])


manager = torchft.Manager(
    pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=5)), min_replica_size=1, load_state_dict=load, state_dict=state,
    replica_id=f"replica{number}", store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1,
    timeout=timedelta(seconds=10),
)  # fmt: skip
wrapped = torchft.DistributedDataParallel(manager, model)
optimizer = torchft.Optimizer(manager, torch.optim.SGD(model.parameters(), lr=0.0))
print("ready", flush=True)
while True:
    optimizer.zero_grad()
    time.sleep(sleep_ms / 1000)
    wrapped(torch.ones(1, 1)).sum().backward()
    before = manager.current_step()
    optimizer.step()
    if manager.current_step() > before:
        print("step", time.time(), flush=True)
