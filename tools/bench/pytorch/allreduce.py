"""A rank of the all-reduce that `godwit bench allreduce` compares with: torch.distributed with gloo, sums of float32.

allreduce.py RANK PEERS FILE INTERFACE: the ranks meet at FILE and talk over INTERFACE. Each line of standard input,
"ELEMENTS REPEATS", which all ranks get, is a measurement; rank 0 prints the time of each call in nanoseconds, one on each
line. It is not a part of Godwit, and is started by the benchmark alone.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

WARM_UP = 3
PATIENCE = datetime.timedelta(seconds=120)


def measure(rank, elements, repeats):
    values, sums = torch.randn(elements), torch.empty(elements)
    times = []
    for _ in range(WARM_UP + repeats):
        sums.copy_(values)
        dist.barrier()
        start = time.perf_counter_ns()
        dist.all_reduce(sums)
        times.append(time.perf_counter_ns() - start)
    if rank == 0:
        print("\n".join(map(str, times[WARM_UP:])), flush=True)


def main():
    rank, peers, file, interface = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=peers, timeout=PATIENCE)
    if rank == 0:
        print(f"torch {torch.__version__.split('+')[0]}", flush=True)
    for line in sys.stdin:
        measure(rank, *map(int, line.split()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
