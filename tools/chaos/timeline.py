"""A run under chaos as a picture (SVG): how much of the possible work was done, which peers were alive, when each fault
lasted, and which processes ended without a fault. A fault's text shows when the pointer rests on it.
"""

import html

WIDTH, LEFT, RIGHT = 1400, 150, 25
ROW, BAR = 22, 12
CHART = 90  # height of the chart of work
BINS = 240
TICKS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)
MOST_TICKS = 14


class Picture:
    def __init__(self, began, seconds):
        self.began, self.seconds = began, max(seconds, 1)
        self.scale = (WIDTH - LEFT - RIGHT) / self.seconds
        self.at = 8  # top of the next row
        self.out = []

    def x(self, moment):
        return LEFT + min(max(moment - self.began, 0), self.seconds) * self.scale

    def text(self, x, y, text, more=""):
        self.out.append(f'<text x="{x:.0f}" y="{y:.0f}" {more}>{html.escape(text)}</text>')

    def bar(self, since, until, colour, title=None, least=0.0):
        """Draws a bar on the row at self.at."""
        width = max(least, self.x(until) - self.x(since))
        inside = "" if title is None else f"<title>{html.escape(title)}</title>"
        place = f'x="{self.x(since):.1f}" y="{self.at + (ROW - BAR) / 2:.0f}" width="{width:.1f}" height="{BAR}"'
        self.out.append(f'<rect {place} fill="{colour}">{inside}</rect>')

    def row(self, label, striped=False):
        if striped:
            self.out.append(f'<rect x="0" y="{self.at}" width="{WIDTH}" height="{ROW}" fill="#f4f4f4"/>')
        self.text(5, self.at + 15, label)

    def write(self, path):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.at + 10}" '
        head += f'viewBox="0 0 {WIDTH} {self.at + 10}" font-family="sans-serif" font-size="12">'
        with open(path, "w") as file:
            file.write("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *self.out, "</svg>"]) + "\n")


def draw_work(picture, run):
    """Draws which part of the live peer-seconds became work, in each of BINS bins of the time."""
    bins = min(BINS, max(1, int(run.seconds)))
    top, bottom = picture.at, picture.at + CHART
    picture.text(5, top + 15, "work committed,")
    picture.text(5, top + 30, "% of what live")
    picture.text(5, top + 45, "peers could do")
    points = [f"{picture.x(run.began):.1f},{bottom}"]
    for i in range(bins):
        since, until = (run.began + run.seconds * edge / bins for edge in (i, i + 1))
        _, live, done = run.between(since, until)
        high = CHART * min(1.0, done / live if live > 0 else 0.0)
        points += [f"{picture.x(since):.1f},{bottom - high:.1f}", f"{picture.x(until):.1f},{bottom - high:.1f}"]
    points.append(f"{picture.x(run.began + run.seconds):.1f},{bottom}")
    picture.out.append(f'<polygon points="{" ".join(points)}" fill="#9ccfae"/>')
    for percent in (0, 50, 100):
        y = bottom - CHART * percent / 100
        picture.out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#888" stroke-width="0.5"/>')
        picture.text(LEFT - 5, y + 4, str(percent), 'text-anchor="end"')
    picture.at = bottom + 10


def draw_time(picture):
    tick = next((s for s in TICKS_S if picture.seconds / s <= MOST_TICKS), TICKS_S[-1])
    top, picture.at = picture.at, picture.at + ROW
    for second in range(0, int(picture.seconds) + 1, tick):
        x = LEFT + second * picture.scale
        picture.out.append(f'<path d="M{x:.1f} 8V{top + 4}" stroke="#888" stroke-width="0.4" stroke-dasharray="2 3"/>')
        text = f"{second // 60} min" if tick >= 60 else f"{second} s"
        picture.text(x, top + 17, text, 'text-anchor="middle"')


def draw(run, path):
    picture = Picture(run.began, run.seconds)
    if run.job.step_s is not None:
        draw_work(picture, run)
    for number in range(1, run.peers + 1):
        picture.row(f"peer {number} alive")
        for who, since, until in run.ledger.spans:
            if who == number:
                picture.bar(since, until, "#999")
        picture.at += ROW
    for i, kind in enumerate(sorted(run.counts)):
        picture.row(f"{kind} ({run.counts[kind]})", striped=i % 2 == 0)
        for fault in run.faults:
            if fault.kind == kind:
                title = f"{fault.began - run.began:.1f} s: {fault.text}"
                picture.bar(fault.began, fault.ended or fault.due, "#c33", title, least=1.2)
        picture.at += ROW
    if run.crashes:
        picture.row(f"no fault's doing ({len(run.crashes)})")
        for when, number, code, _ in run.crashes:
            title = f"{when - run.began:.1f} s: peer {number} ended ({code})"
            picture.bar(when, when, "#000", title, least=2.5)
        picture.at += ROW
    draw_time(picture)
    picture.write(path)
