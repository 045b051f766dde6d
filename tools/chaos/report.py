"""What a run under chaos came to: tables, and a timeline as SVG."""

import html
import statistics

WIDTH, ROW, LEFT = 1200, 22, 150


def milliseconds(seconds):
    return f"{seconds * 1000:.0f}"


def print_report(run):
    print(f"\n{'fault':20} {'times':>6} {'median ms':>10} {'worst ms':>10}   (until the next step was committed)")
    for kind in sorted(run.counts):
        waits = [fault.recovery for fault in run.faults if fault.kind == kind and fault.recovery is not None]
        median, worst = (milliseconds(statistics.median(waits)), milliseconds(max(waits))) if waits else ("-", "-")
        print(f"{kind:20} {run.counts[kind]:6} {median:>10} {worst:>10}")
    for kind, why in run.skipped:
        print(f"{kind:20} skipped: {why}")
    print(f"\nfaults {len(run.faults)}, of {len(run.counts)} kinds, in {run.seconds:.0f} s")
    print(f"steps committed {run.steps}; processes that ended by themselves and were started again {run.ended}")
    print(f"work done of what live peers allow {100 * run.efficiency:.1f} % ({run.live_seconds:.0f} live peer-seconds)")
    print(f"memory of a peer at most {run.most_memory >> 20} MiB, descriptors at most {run.most_descriptors}")
    print(f"state   {run.state}\nalone   {run.alone}\nsame bytes as an undisturbed single-peer run: {'yes' if run.same else 'NO'}")


def draw(run, path):
    """A row a peer: alive (grey), steps committed (ticks above), faults as bars of their length."""
    scale = (WIDTH - LEFT - 20) / max(run.seconds, 1)
    kinds = sorted(run.counts)
    height = ROW * (len(kinds) + run.peers + 4)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">']
    out.append('<rect width="100%" height="100%" fill="white"/>')

    def x(moment):
        return LEFT + (moment - run.began) * scale

    def row(at, label):
        out.append(f'<text x="5" y="{at + 15}">{html.escape(label)}</text>')

    at = 0
    row(at, "steps committed")
    for moment in run.step_times[:: max(1, len(run.step_times) // 2000)]:
        out.append(f'<path d="M{x(moment):.1f} {at + 4}v14" stroke="#2a7" stroke-width="0.6"/>')
    for number in range(1, run.peers + 1):
        at += ROW
        row(at, f"peer {number} alive")
        for who, since, until in run.lives:
            if who == number:
                out.append(f'<rect x="{x(since):.1f}" y="{at + 5}" width="{(until - since) * scale:.1f}" height="12" fill="#bbb"/>')
    for kind in kinds:
        at += ROW
        row(at, kind)
        for fault in run.faults:
            if fault.kind != kind:
                continue
            title = f"{fault.began - run.began:.1f} s: {fault.text}"
            width = max(1.5, (fault.ended - fault.began) * scale)
            out.append(
                f'<rect x="{x(fault.began):.1f}" y="{at + 5}" width="{width:.1f}" height="12" fill="#c33" opacity="0.7">'
                f"<title>{html.escape(title)}</title></rect>"
            )
    at += ROW + 15
    for tick in range(0, int(run.seconds) + 1, max(1, int(run.seconds) // 12)):
        out.append(f'<text x="{LEFT + tick * scale:.0f}" y="{at}">{tick} s</text>')
    out.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")
