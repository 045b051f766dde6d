"""The page of --http in a real browser: it shows what the API tells, of the whole flock, in all its sizes and colours, and
survives the restart of the peer. The checks share one flock, in the order of their names."""

import json
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]
import browser  # noqa: E402
import page_flock  # noqa: E402
import tap  # noqa: E402

JOB = ("digits", "--epochs", "2000", "--checkpoint-every", "200")
HOSTILE = "<b>x</b>"  # a name that must be shown as it is


def setUpModule():
    global flock, first, second, page
    flock = page_flock.Flock()
    first = flock.peer("first", JOB, ("--peers", "2"))
    second = flock.peer(HOSTILE, JOB, ("--peers", "2"))
    page = browser.Browser()
    page.open(first.url())
    page.until("known.state.step > 120 && charts.size > 0 && document.querySelectorAll('#peer-table tbody tr').length === 2")


def tearDownModule():
    page.close()
    flock.close()


def row(text):
    """JavaScript: the row of the table of peers that contains a text."""
    return f"[...document.querySelectorAll('#peer-table tbody tr')].find((r) => r.textContent.includes({json.dumps(text)}))"


class Page(unittest.TestCase):
    maxDiff = None

    def test_a_values_are_those_of_the_api(self):
        state = first.ask("/api/state")
        for key in ("job", "job_id", "self", "steps", "cluster", "workers", "device", "boot"):
            self.assertEqual(page.run(f"known.state[{json.dumps(key)}]"), state[key], key)
        self.assertEqual(page.run("document.getElementById('job').textContent"), "digits")
        shown = page.until(f"known.state.step >= {state['step']} && known.state.step")
        self.assertGreaterEqual(first.ask("/api/state")["step"], shown)
        peers = first.ask("/api/peers")["peers"]
        self.assertEqual(page.run("Object.keys(known.peers).sort()"), sorted(peer["id"] for peer in peers))

    def test_b_curves_are_those_of_the_api(self):
        self.assertLessEqual({"train/loss", "evaluate/test_loss", "run/ms", "run/members"}, set(page.run("Object.keys(curves)")))
        last = page.run("known.series.last")
        begin, end = max(1, last - 110), last - 10  # recent steps are single for some seconds
        page.run(f"hooks.zoom({begin}, {end})")
        told = first.ask(f"/api/series?from={begin}&to={end}&points=600")["series"]
        self.assertEqual(told["train/loss"]["begin"], sorted(told["train/loss"]["begin"]))
        self.assertGreater(len(told["train/loss"]["begin"]), 80)
        page.until(f"curves['run/ms'].begin[0] === {begin} && curves['run/ms'].end.at(-1) === {end}")
        for name, columns in told.items():
            self.assertEqual(page.run(f"curves[{json.dumps(name)}].begin"), columns["begin"], name)
            self.assertEqual(page.run(f"curves[{json.dumps(name)}].mean"), columns["last"], name)
        page.run("hooks.reset()")
        page.until("curves['run/ms'].begin[0] === 1")
        self.assertGreater(page.run("charts.size"), 4)
        loss = first.ask("/api/series?keys=train/loss&from=1&to=1")["series"]["train/loss"]["last"][0]
        self.assertEqual(page.run("[curves['train/loss'].end[0], curves['train/loss'].mean[0]]"), [1, loss], "the first loss is seen")

    def test_c_the_card_of_another_peer_is_shown(self):
        shown = page.until("Object.values(known.peers).find((p) => !p.self && p.card && p.card.shards > 0)")
        self.assertEqual(shown["card"]["pid"], second.process.pid)
        self.assertEqual(shown["card"]["workers"], 1)
        cells = page.until(f"(() => {{ const r = {row(HOSTILE)}; const done = r.cells[6].textContent; return done !== '–' && [r.cells[1].textContent, done]; }})()")
        self.assertEqual(cells[0], "●\u00a0alive")
        other = page.run("Object.values(known.peers).find((p) => p.self).card.host")
        self.assertEqual(page.run(f"{row(HOSTILE)}.cells[2].textContent"), f"{other}127.0.0.1:{second.port}")
        whole = f"{HOSTILE} ({shown['id'][:8]}) on host {other}, at 127.0.0.1:{second.port}, page at 127.0.0.1:{second.http_port}"
        page.until(f"[...document.querySelectorAll('#member-list li')].some((e) => e.textContent === {json.dumps(whole)})")

    def test_d_what_others_send_is_text_and_no_html(self):
        self.assertIn(HOSTILE, page.run("document.getElementById('peer-table').textContent"))
        self.assertIsNone(page.run("document.querySelector('#peer-table b, #event-list b')"))

    def test_e_keyboard_and_mouse_zoom(self):
        page.run("[...charts.values()][0].canvas.focus()")
        before = page.run("[...charts.values()][0].read.textContent")
        for _ in range(10):
            page.key("ArrowLeft", 37)
        page.until(f"[...charts.values()][0].read.textContent !== {json.dumps(before)}")
        page.key("+", 187, "+")
        self.assertTrue(page.until("zoom !== null && zoom[1] - zoom[0] < known.series.last && !document.getElementById('reset-zoom').disabled"))
        page.key("Escape", 27)
        self.assertTrue(page.until("zoom === null"))
        page.run("[...charts.values()][0].canvas.scrollIntoView({block: 'center'})")
        box = page.run("(() => { const b = [...charts.values()][0].canvas.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")
        middle = box[1] + box[3] / 2
        page.drag((box[0] + 0.3 * box[2], middle), (box[0] + 0.6 * box[2], middle))
        zoom = page.until("zoom")
        self.assertTrue(0 < zoom[0] < zoom[1] < page.run("known.series.last"), zoom)
        page.until(f"curves['run/ms'].begin[0] >= {zoom[0] - 8} && curves['run/ms'].begin[0] > 1")
        page.run("document.getElementById('reset-zoom').click()")
        page.until("zoom === null && curves['run/ms'].begin[0] === 1")

    def test_f_the_table_is_sorted(self):
        button = "document.querySelector('#peer-table th[data-key=step] button')"
        page.run(f"{button}.click()")
        self.assertEqual(page.run("document.querySelector('#peer-table th[data-key=step]').getAttribute('aria-sort')"), "ascending")
        page.run("document.querySelector('#peer-table th[data-key=peer] button').click()")
        self.assertIsNone(page.run("document.querySelector('#peer-table th[data-key=step]').getAttribute('aria-sort')"))

    def test_g_dark_light_and_narrow(self):
        back = "getComputedStyle(document.body).backgroundColor"
        page.scheme("light")
        light = page.until(f"document.documentElement.dataset.theme === 'light' && {back}")
        page.scheme("dark")
        dark = page.until(f"document.documentElement.dataset.theme === 'dark' && {back}")
        self.assertNotEqual(light, dark)
        page.run("document.getElementById('theme').click()")
        page.until("document.documentElement.dataset.theme === 'light'")
        page.run("document.getElementById('theme').click()")
        page.run("document.getElementById('theme').click()")
        page.scheme("light")
        page.resize(360, 740, True)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360)
        wide = "[...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest('.log')).map((e) => e.tagName + '#' + e.id + '.' + e.className)"
        self.assertEqual(page.run(wide), [])
        page.resize(1280, 900)

    def test_h_landmarks_and_names_for_a_screen_reader(self):
        self.assertEqual(page.run("[document.querySelectorAll('main, header, nav').length, document.querySelectorAll('h1').length]"), [3, 1])
        unnamed = "[...document.querySelectorAll('button, input, select, canvas')].filter((e) => !(e.textContent || e.getAttribute('aria-label') || e.closest('label'))).length"
        self.assertEqual(page.run(unnamed), 0)
        self.assertEqual(page.run("[...document.querySelectorAll('section')].every((s) => document.getElementById(s.getAttribute('aria-labelledby')))"), True)

    def test_i_a_death_and_its_reason(self):
        second.kill()
        page.until(f"{row(HOSTILE)}.className === 'gone' && {row(HOSTILE)}.cells[1].textContent.includes('dead since')")
        page.run(f"{row(HOSTILE)}.querySelector('button').click()")
        page.until("document.querySelector('tr.detail') && document.querySelector('tr.detail').textContent.includes('is dead')")
        self.assertIn("its process has ended", page.run("document.getElementById('event-list').textContent"))
        self.assertEqual(page.run("document.querySelectorAll('tr.detail b').length"), 0)
        second.start()
        page.until(f"{row(HOSTILE)}.className === '' && known.state.members === 2")
        page.until("events.some((e) => e.event === 'view' && e.members.length === 1)")

    def test_j_the_page_survives_the_restart_of_its_peer(self):
        self.assertEqual(page.console, [])
        self.assertEqual(page.failures, [])
        boot, last = page.run("known.boot"), page.run("known.series.last")
        first.kill()
        page.until("!document.getElementById('away').hidden && document.getElementById('away').textContent.includes('has not answered since')")
        page.forget()
        first.start()
        page.until(f"known.boot === {boot + 1} && document.getElementById('away').hidden && known.series.last > {last}")
        page.until("known.state.members === 2 && document.getElementById('health').className === 'pill good'")
        page.until("curves['train/loss'].begin[0] === 1")
        steps = page.run("[curves['run/ms'].begin, curves['run/ms'].end]")
        self.assertTrue(all(end < begin for end, begin in zip(steps[1], steps[0][1:])), "no step is there twice")

    def test_k_no_other_host_is_asked(self):
        hosts = {url.split("/")[2] for url in page.requests if url.startswith("http")}
        self.assertEqual(hosts, {f"127.0.0.1:{first.http_port}"})
        errors = [line for line in page.console if not re.search("ERR_(CONNECTION|INCOMPLETE|EMPTY)", line)]  # while the peer was away
        self.assertEqual(errors, [])


class TheEnd(unittest.TestCase):
    """What the page shows of a job that has ended while it looked on."""

    def watch(self, job):
        """Two peers, and the page of the first of them, which is open before the job begins."""
        two = page_flock.Flock()
        self.addCleanup(two.close)
        peer = two.peer("node1", job, ("--peers", "2"))
        page.open(peer.url())
        page.until("known.state.job === 'synthetic' && document.getElementById('end').hidden")
        two.peer("node2", job, ("--peers", "2"))
        return peer

    def test_a_job_that_is_done_is_no_peer_that_does_not_answer(self):
        peer = self.watch(("synthetic", "--steps", "30", "--shards", "4"))
        self.assertEqual(peer.process.wait(page_flock.LIMIT_S), 0)
        state = re.search(r"done job=synthetic steps=30 state=([0-9a-f]{64})", peer.text()).group(1)
        page.until("!document.getElementById('end').hidden")
        told = page.run("document.getElementById('end').textContent")
        self.assertRegex(told, rf"^■ The job is done\. 30 steps in .*Hash of the state: {state}\.$")
        page.run("watch()")
        page.until("source.readyState === EventSource.CONNECTING")
        self.assertEqual(page.run("[document.getElementById('health').textContent, document.getElementById('away').hidden]"), ["■ done", True])
        self.assertEqual(page.run("[known.state.step, curves['run/ms'].end.at(-1)]"), [30, 30], "the last step is in the curves")
        self.assertTrue(page.run("document.getElementById('end').getBoundingClientRect().bottom <= document.getElementById('main').getBoundingClientRect().top"))

    def test_b_a_job_that_was_stopped_says_how_it_goes_on(self):
        peer = self.watch(("synthetic", "--steps", "1000000", "--shards", "4"))
        page.until("known.state.step > 3")
        subprocess.run([page_flock.BINARY, "stop", "--dir", os.path.join(peer.folder, "node1")], check=True, stdout=subprocess.DEVNULL)
        page.until("document.getElementById('end').textContent.includes('was stopped') && document.getElementById('end').className === 'warn'")
        peer.start()
        page.until("document.getElementById('end').hidden && known.boot === 2")


def missing():
    return None if browser.program() else "no browser (Debian: chromium)"


if __name__ == "__main__":
    tap.main(missing, "page")
