"""Prometheus itself judges the metrics of running peers, the alert rules and every expression of Grafana's board; when a
peer is killed, the alerts of the rules fire."""

import http
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(TREE / "tools" / "lab"))
import flock  # noqa: E402
import readers  # noqa: E402
import tap  # noqa: E402

GODWIT = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build")) / "godwit"
RULES = TREE / "tools" / "prometheus" / "rules.yml"
BOARD = TREE / "tools" / "grafana" / "godwit.json"
JOB = "synthetic --workers 1 --shards 12 --shard-ms 5 --state-bytes 64k --checkpoint-every 20 --steps 100000000"
PEERS = ["--peers", "3", "--http", "127.0.0.1:0", "--probe-interval-ms", "50"]
PATIENCE_S = 300


def get(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def promtool(*arguments, text=None):
    command = [readers.prometheus()[0] / "promtool", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def http_address(peer):
    with peer.flock.changed:
        return next(e["address"] for p, e in peer.flock.events if p is peer and e["event"] == "listening" and e["what"] == "http")


class Rules(unittest.TestCase):
    def test_promtool_accepts_the_rules(self):
        code, words = promtool("check", "rules", str(RULES))
        self.assertEqual(code, 0, words)

    def test_each_alert_comes_when_it_should_and_only_then(self):
        code, words = promtool("test", "rules", str(HERE / "prometheus_rules.yml"))
        self.assertEqual(code, 0, words)
        tests = (HERE / "prometheus_rules.yml").read_text()
        for name in re.findall(r"alert: (\w+)", RULES.read_text()):
            self.assertIn(name, tests, "every alert has a test")


class GpuPage(http.server.BaseHTTPRequestHandler):
    """A peer with a GPU: each metric of GPUs and of energy that the program knows, with a value."""

    page = ""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.page.encode())

    def log_message(self, *arguments):
        pass

    @classmethod
    def serve(cls):
        source = (TREE / "tools/godwit/show/snapshot_gpus.c").read_text()
        source += (TREE / "tools/godwit/show/snapshot_metrics.c").read_text()
        lines = ['godwit_info{job_id="ab",job_name="gpt",name="with a GPU",peer="cd"} 1']
        lines.append('godwit_report{key="loss"} 1')
        names = set(re.findall(r'"((?:godwit_gpu|DCGM)_\w+)"', source))
        lines += [f'{name}{{gpu="0"}} 1' for name in sorted(names)]
        lines += [f"{name} 1" for name in sorted(set(re.findall(r'"(godwit_\w*(?:energy|power|tokens)\w*)"', source)))]
        cls.page = "\n".join(lines) + "\n"
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), cls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


class Prometheus:
    """A Prometheus that scrapes and evaluates twice a second; alerts need to last no time here."""

    def __init__(self, folder, targets):
        self.folder = pathlib.Path(folder)
        self.targets = self.folder / "targets.json"
        self.aim(targets)
        rules = re.sub(r"^        for: .*\n", "", RULES.read_text(), flags=re.MULTILINE)
        (self.folder / "rules.yml").write_text(rules)
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {"job_name": "godwit", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}]}
            ],
        }
        (self.folder / "prometheus.json").write_text(json.dumps(config))
        command = [readers.prometheus()[0] / "prometheus", "--config.file", self.folder / "prometheus.json"]
        command += ["--storage.tsdb.path", self.folder / "data", "--web.listen-address", "127.0.0.1:0"]
        self.log = self.folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=flock.bind_life)
        self.url = None

    def aim(self, targets):
        self.targets.write_text(json.dumps([{"targets": targets}]))

    def address(self):
        match = re.search(r'msg="Listening on" address=(\S+)', self.log.read_text())
        return f"http://{match.group(1)}" if match else None

    def wait(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                value = condition()
            except (urllib.error.URLError, OSError):
                value = None
            if value:
                return value
            if self.process.poll() is not None:
                break
            threading.Event().wait(0.1)  # it cannot be told to tell
        raise AssertionError(f"{what} not within {PATIENCE_S} s\n{self.log.read_text()[-3000:]}")

    def ask(self, path, **query):
        self.url = self.url or self.address()
        if self.url is None:
            raise OSError("it does not listen yet")
        try:
            _, text = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:
                raise OSError("it listens, and is not ready yet") from error
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        return json.loads(text)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def close(self):
        self.process.kill()
        self.process.wait()


def expressions(value):
    """All expressions of a board, with where they stand."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "expr":
                yield value.get("title") or value.get("name") or value.get("legendFormat"), inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


class Board(unittest.TestCase):
    """What can be seen of the board without anybody who shows it."""

    def setUp(self):
        self.board = json.loads(BOARD.read_text())

    def test_panels_have_numbers_of_their_own_and_do_not_overlap(self):
        panels = self.board["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells

    def test_every_variable_that_is_used_is_there(self):
        names = {variable["name"] for variable in self.board["templating"]["list"]}
        self.assertEqual({"datasource", "job", "job_id", "peer"}, names)
        for used in re.findall(r"\$\{?([a-z_]\w*)", json.dumps(self.board)):
            self.assertIn(used, names | {"__rate_interval", "__interval"})


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.peers = cls.enterClassContext(flock.Flock(GODWIT, JOB.split()))
        cls.all = cls.peers.gather(3, PEERS)
        cls.peers.wait_step(30, 60)
        cls.gpu = GpuPage.serve()
        cls.addClassCleanup(cls.gpu.shutdown)
        targets = [http_address(peer) for peer in cls.all] + [f"127.0.0.1:{cls.gpu.server_address[1]}"]
        cls.prometheus = Prometheus(cls.folder, targets)
        cls.addClassCleanup(cls.prometheus.close)

    def test_a_promtool_has_nothing_to_say_about_a_peer(self):
        kind, page = get(f"http://{http_address(self.all[0])}/metrics")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(promtool("check", "metrics", text=page), (0, ""))

    def test_b_openmetrics_are_read_by_a_strict_parser(self):
        if readers.missing():
            self.skipTest(readers.missing())
        kind, page = get(f"http://{http_address(self.all[0])}/metrics", "application/openmetrics-text;version=1.0.0")
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        command = [readers.program("python"), HERE / "parse_openmetrics.py"]
        done = subprocess.run(command, input=page, capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(json.loads(done.stdout)["godwit_steps"], ["counter", "", 1])

    def test_c_every_expression_of_the_board_returns_data(self):
        self.prometheus.wait(lambda: len(self.prometheus.query("godwit_info")) == 4, "four peers")
        board = json.loads(BOARD.read_text())
        left = dict(enumerate(expressions(board["panels"] + board["annotations"]["list"])))
        self.assertGreater(len(left), 50)

        def all_return():
            """Rates need two scrapes, so that some expressions return nothing at first."""
            for number, (_, text) in list(left.items()):
                if text.startswith("ALERTS") or "disk_writable == 0" in text:  # none, as all is well
                    text = f"({text}) or vector(1)"
                for name, value in (("$__rate_interval", "5s"), ("$__interval", "5s"), ("[10m]", "[5s]")):
                    text = text.replace(name, value)
                if self.prometheus.query(re.sub(r"\$\w+", ".*", text).replace("changes(", "1 + changes(")):
                    del left[number]
            return not left

        try:
            self.prometheus.wait(all_return, "every expression returns data")
        except AssertionError:
            self.fail(f"these return nothing: {list(left.values())}")
        for variable in board["templating"]["list"][1:]:
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            values = self.prometheus.ask(f"label/{label}/values", **{"match[]": re.sub(r"\$\w+", ".+", series)})
            self.assertTrue(values, variable["name"])

    def test_d_alerts_fire_when_a_peer_is_killed_and_when_all_are(self):
        quiet = {"GodwitPeerLost", "GodwitFlockGone", "GodwitPeerWaits", "GodwitTwoLeaders", "GodwitCorruption",
                 "GodwitDiskFails", "GodwitLossNotFinite", "GodwitNoCheckpoint", "GodwitGpuErrors", "GodwitStrangers"}
        self.prometheus.wait(lambda: self.prometheus.query("job_id:godwit_members:max == 3"), "three members")
        self.assertFalse(self.prometheus.firing() & quiet)
        self.all[2].kill()
        self.prometheus.wait(lambda: "GodwitPeerLost" in self.prometheus.firing(), "the alert for a lost peer")
        (alert,) = (a for a in self.prometheus.ask("alerts")["alerts"] if a["labels"]["alertname"] == "GodwitPeerLost")
        self.assertEqual(alert["annotations"]["summary"], "synthetic: a peer was lost, 2 compute on")
        self.assertEqual(self.prometheus.firing() & quiet, {"GodwitPeerLost"})
        for peer in self.all[:2]:
            peer.kill()
        self.prometheus.wait(lambda: "GodwitFlockGone" in self.prometheus.firing(), "the alert for a flock that is gone")


if __name__ == "__main__":
    tap.main(lambda: readers.prometheus()[1], "Prometheus")
