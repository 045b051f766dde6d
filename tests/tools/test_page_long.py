"""The page over a long time, and its server under clients that mean harm: neither the page nor the peer grows, and the job
goes on. It takes some minutes."""

import json
import os
import socket
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]
import browser  # noqa: E402
import page_flock  # noqa: E402
import tap  # noqa: E402

# Steps of about a millisecond.
JOB = ("synthetic", "--shards", "2", "--shard-ms", "0", "--state-bytes", "64k", "--sum-elements", "1024", "--checkpoint-every", "60s")
MIB = 1 << 20

# Changes as the stream brings them, one after the other: ticks `from` to `to`.
TICKS = """
(async (from, to) => {
  const names = Object.keys(curves);
  for (let tick = from; tick < to; tick++) {
    const last = known.series.last, columns = { begin: [], last: [] };
    for (let i = 1; i <= 100; i++) {
      columns.begin.push(last + i);
      columns.last.push(Math.sin(last + i));
    }
    takeChange({
      state: { time: known.state.time + 1, step: last + 100, step_ms: 1 + Math.random(), counters: { shards: tick } },
      peers: Object.fromEntries(Object.keys(known.peers).map((id) => [id, { step: last + 100, card: { shards: tick } }])),
      series: { last: last + 100, cuts: known.series.cuts, new: Object.fromEntries(names.map((n) => [n, columns])) },
      events: tick % 10 && tick > 300 ? [] : [{ line: events.length > 0 ? events.at(-1).line + 1 : 1, event: "view", time: Date.now() / 1000, number: tick, members: ["a"], leader: known.state.self, step: last, cause: "a test", took_ms: 1 }],
      log: [{ line: lastLine + 1, time: Date.now() / 1000, level: "info", room: "room", text: "line " + tick }],
    });
    if (tick % 20 === 0) await new Promise((done) => requestAnimationFrame(done));
  }
  return true;
})
"""


class Long(unittest.TestCase):
    def setUp(self):
        self.flock = page_flock.Flock()
        self.addCleanup(self.flock.close)
        self.peer = self.flock.peer("first", JOB)
        page_flock.until("a step", lambda: self.peer.ask("/api/state")["step"])

    def steps_per_s(self, seconds=4):
        begin, at = self.peer.ask("/api/state")["step"], time.monotonic()
        time.sleep(seconds)
        return (self.peer.ask("/api/state")["step"] - begin) / (time.monotonic() - at)

    def tick(self, page, begin, end):
        for at in range(begin, end, 50):
            page.run(f"{TICKS}({at}, {at + 50})")

    def test_many_changes_leave_the_page_as_large_as_it_was(self):
        page = browser.Browser()
        self.addCleanup(page.close)
        page.open(self.peer.url())
        page.until("known.series.last > 100 && charts.size > 2")
        page.run("source.close(), source = { readyState: 0, close() {} }, readCurves = () => {}, watch = () => {}, heard = Infinity")
        self.tick(page, 0, 350)  # all that has a bound has reached it
        before = page.use()
        self.tick(page, 350, 1350)
        after = page.use()
        self.assertLess(after["Nodes"], before["Nodes"] * 1.1 + 100)
        self.assertLess(after["JSEventListeners"], before["JSEventListeners"] + 20)
        self.assertLess(after["JSHeapUsedSize"], before["JSHeapUsedSize"] * 1.2 + 2 * MIB)
        print(f"# 1000 changes: nodes {before['Nodes']} and {after['Nodes']}, heap {before['JSHeapUsedSize'] / MIB:.1f} and "
              f"{after['JSHeapUsedSize'] / MIB:.1f} MiB", file=sys.stderr)
        self.assertEqual(page.console, [])

    def test_a_peer_that_is_looked_at_does_not_grow(self):
        page = browser.Browser()
        self.addCleanup(page.close)
        page.open(self.peer.url())
        page.until("known.series.last > 20000", 120)  # the levels of the series are there
        before, begin, step = self.peer.rss(), time.monotonic(), page.run("known.series.last")
        page.until(f"known.series.last > {step + 40000}", 180)
        after = self.peer.rss()
        print(f"# {step + 40000} steps, {time.monotonic() - begin:.0f} s: {before / MIB:.1f} and {after / MIB:.1f} MiB", file=sys.stderr)
        self.assertLess(after, before + 4 * MIB)
        self.assertEqual(page.console, [])

    def test_a_flood_and_readers_that_do_not_read(self):
        usual = self.steps_per_s()
        over, answers, slow = threading.Event(), [], []
        for _ in range(16):
            one = socket.create_connection(("127.0.0.1", self.peer.http_port))
            one.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            slow.append(one)

        def flood():
            while not over.is_set():
                try:
                    with socket.create_connection(("127.0.0.1", self.peer.http_port), timeout=20) as one:
                        one.sendall(b"GET /api/series?points=2000 HTTP/1.0\r\n\r\n")
                        answers.append(one.recv(20)[9:12])
                        while one.recv(1 << 16):
                            pass
                except OSError:
                    answers.append(b"")

        threads = [threading.Thread(target=flood) for _ in range(8)]
        for one in threads:
            one.start()
        page_flock.until("answers", lambda: len(answers) > 60, 120)
        before = self.peer.rss()
        flooded = self.steps_per_s()
        with socket.create_connection(("127.0.0.1", self.peer.http_port), timeout=20) as one:
            one.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 ", one.recv(1000))
        after = self.peer.rss()
        over.set()
        for one in threads:
            one.join()
        for one in slow:
            one.close()
        print(f"# steps a second: {usual:.0f}, under {len(answers)} requests {flooded:.0f}; {before / MIB:.1f} and "
              f"{after / MIB:.1f} MiB", file=sys.stderr)
        self.assertGreater(flooded, 0.25 * usual)  # the eight clients compute on the same two processors
        self.assertLess(after, before + 16 * MIB)
        self.assertGreater(answers.count(b"200"), 20)
        self.assertLessEqual({answer for answer in answers if answer}, {b"200", b"429"})


def missing():
    return None if browser.program() else "no browser (Debian: chromium)"


if __name__ == "__main__":
    tap.main(missing, "page")
