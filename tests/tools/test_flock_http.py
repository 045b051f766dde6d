"""The queue of a flock for browsers (godwit up --http): names and states, and nothing else."""

import html
import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import GODWIT, PATIENCE, Case, tap  # noqa: E402


class Http(Case):
    def get(self, path, method="GET", host=None):
        """Returns status, type of the content, and text."""
        headers = {"Host": host} if host else {}
        request = urllib.request.Request(self.address + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def test_it_shows_names_and_states_alone(self):
        flock = self.flock(2, ["--cores", "2", "--http", "0"])
        a = flock[0]
        self.address = a.await_line(r"browsers see the queue at (http://\S+)/").group(1)
        job = a.submit("--name", "shown", "--env", "HIDDEN=secret", "--", "sh", "-c", "echo secret; sleep 600")
        self.runs_on(flock, job)
        held = a.submit("--hold", "--name", "held", "--", "true", "secret")
        status, kind, text = self.get("/")
        self.assertEqual((status, kind), (200, "text/html; charset=utf-8"))
        for word in ("shown", "running", "held", "is held", job[:8], "n1", "n2", "ready"):
            self.assertIn(word, html.unescape(text))
        self.assertNotIn("<script", text)
        status, kind, text = self.get("/api/queue")
        self.assertEqual((status, kind), (200, "application/json"))
        queue = json.loads(text)
        self.assertEqual({one["id"]: one["state"] for one in queue["jobs"]}, {job: "running", held: "held"})
        self.assertEqual({one["name"] for one in queue["nodes"]}, {"n1", "n2"})
        for page in (text, self.get("/")[2]):
            for hidden in ("secret", flock.folder, "sleep", "127.0.0.1"):
                self.assertNotIn(hidden, page)

    def test_strangers_and_wrong_requests_are_refused(self):
        a, = self.flock(1, ["--http", "0"])
        self.address = a.await_line(r"browsers see the queue at (http://\S+)/").group(1)
        self.assertEqual(self.get("/healthz"), (200, "text/plain; charset=utf-8", "ok\n"))
        self.assertEqual(self.get("/", host="evil.example.com")[0], 403)
        self.assertEqual(self.get("/", host="localhost:80")[0], 200)
        self.assertEqual(self.get("/api/state")[0], 404)
        self.assertEqual(self.get("/", method="POST")[0], 405)
        self.assertEqual(self.get("/", method="HEAD"), (200, "text/html; charset=utf-8", ""))
        a.do("drain", a.name)
        self.until("it takes no jobs", lambda: self.get("/healthz")[0] == 503)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = subprocess.run([GODWIT, "up", "--as-root", "--dir", os.path.join(a.flock.folder, "other"), "--listen",
                                   "127.0.0.1:0", "--http", str(taken.getsockname()[1])], capture_output=True, text=True,
                                  timeout=PATIENCE, stdin=subprocess.DEVNULL)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, "the port of .* is in use")
        done = subprocess.run([GODWIT, "up", "--http", "here"], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(re.search("--http: 'here' is no port", done.stderr), done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
