"""Measures PyTorch on this GPU: a copy, a matrix product, attention, and training the classifier of `digits`. Prints
one JSON object. tools/gpu/check.py runs it, so that godwit and PyTorch are measured on the same GPU within minutes."""

import json
import statistics

import torch


# As in tools/bench/gpu/gpu.c: the rounds, the rounds before them that do not count, and the calls in a round. Calls
# that take less than a millisecond start before the last one has ended: else PyTorch's dispatch would be measured.
ROUNDS, WARM, PRODUCTS, ATTENTIONS = 15, 3, 20, 20
# Training is measured for as long as godwit's: after a second of products a GPU is hotter than after a tenth of one,
# and its clock is slower.
STEPS, WARM_STEPS = 60, 20


def median_seconds(work, calls=1, rounds=ROUNDS, warm=WARM):
    """The median seconds of one call, measured by events on the GPU."""
    took = []
    for number in range(-warm, rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        if number >= 0:
            took.append(begin.elapsed_time(end) / 1000 / calls)
    return statistics.median(took)


def copy_rate():
    """Bytes read and written per second."""
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / median_seconds(lambda: target.copy_(source))


def gemm_rate(size=4096):
    """A product in bf16 with sums in fp32. It takes several inputs in turn, which do not fit into the cache. The values
    are those of godwit's measurement: the GPU needs less power for some values, and is faster then."""

    def factors():
        return [torch.empty(size, size, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1) for _ in range(4)]

    a, b = factors(), factors()
    out = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    turn = [0]

    def work():
        turn[0] = (turn[0] + 1) % 4
        torch.matmul(a[turn[0]], b[turn[0]], out=out)

    return 2 * size**3 / median_seconds(work, PRODUCTS)


def attention_rates(width, sequences=32, positions=1024, channels=1024):
    """Attention in bf16, forward and backward, by PyTorch's FlashAttention-2. Counts operations below the diagonal."""
    shape = (sequences, channels // width, positions, width)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    operations = 2 * sequences * channels * positions**2
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):

        def attend():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        out = attend()
        gradient = torch.randn_like(out)
        forward = median_seconds(attend, ATTENTIONS)
        backward = median_seconds(
            lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), ATTENTIONS
        )
    return operations / forward, 2.5 * operations / backward


def digits_rate(width=8192, batch=8192, shard=2048):
    """Samples per second of training like `digits`: eager, TF32, AdamW, the batch in four micro-batches."""
    torch.backends.cuda.matmul.allow_tf32 = True
    model = torch.nn.Sequential(
        torch.nn.Linear(784, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 10),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, fused=True)
    images = torch.randn(batch, 784, device="cuda")
    labels = torch.randint(0, 10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        for first in range(0, batch, shard):
            logits = model(images[first : first + shard])
            loss = torch.nn.functional.cross_entropy(logits, labels[first : first + shard], reduction="sum")
            (loss / batch).backward()
        optimizer.step()

    return batch / median_seconds(step, rounds=STEPS, warm=WARM_STEPS)


def main():
    attention = {width: attention_rates(width) for width in (64, 128)}
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "copy_bytes_per_s": copy_rate(),
                "gemm_bf16_flops": gemm_rate(),
                "attention_64_flops": attention[64][0],
                "attention_64_back_flops": attention[64][1],
                "attention_128_flops": attention[128][0],
                "attention_128_back_flops": attention[128][1],
                "digits_samples_per_s": digits_rate(),
            }
        )
    )


if __name__ == "__main__":
    main()
