"""What PyTorch reaches on this GPU: a copy, a matrix product, attention, and training the classifier of `digits`. Prints
one JSON object. Run by tools/gpu/check.py, so that both are measured on the same GPU within minutes."""

import json
import statistics

import torch


# As in tools/bench/gpu/gpu.c: rounds, those before them that do not count, and calls between two events of a round. What
# takes less than a millisecond is started again before it has ended, or else it is PyTorch's dispatch that is measured.
ROUNDS, WARM, PRODUCTS, ATTENTIONS = 15, 3, 20, 20
# Training is measured as long as ours: a GPU that has multiplied for a second is hotter than after a tenth of one, and
# its clock slower.
STEPS, WARM_STEPS = 60, 20


def median_seconds(work, calls=1, rounds=ROUNDS, warm=WARM):
    """Of one call, by events on the GPU."""
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
    """Bytes read and written a second."""
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / median_seconds(lambda: target.copy_(source))


def gemm_rate(size=4096):
    """Of bf16 with sums in fp32. Several inputs in turn: they do not fit into the cache. Values as ours are: some take less
    power to multiply than others, and are faster."""

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
    """Forward and backward, in bf16, by the FlashAttention-2 that PyTorch brings: operations below the diagonal."""
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
    """Samples a second of training as `digits` does it: eager, TF32, AdamW, the batch in four micro-batches."""
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
