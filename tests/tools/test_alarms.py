"""Alarms of real peers: the leader is killed, and each alarm comes at least once all the same."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")


class Peer:
    def __init__(self, folder, name, port, arguments):
        self.alarms = []
        self.changed = threading.Condition()
        self.events = []
        notify = os.path.join(folder, f"notify-{name}")
        log = os.path.join(folder, f"alarms-{name}")
        with open(notify, "w") as file:
            file.write(f"#!/bin/sh\ncat >> {log}\n")
        os.chmod(notify, 0o700)
        open(log, "a").close()
        join = ["--join", f"127.0.0.1:{port}"] if port else []
        self.log = log
        self.process = subprocess.Popen(
            [GODWIT, "run", *arguments, "--dir", os.path.join(folder, name), "--name", name, "--json", "--notify", notify]
            + ["--listen", "127.0.0.1:0", *join],
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()

    def wait_for(self, wanted):
        with self.changed:
            self.changed.wait_for(lambda: any(wanted(event) for event in self.events), 60)
            return next(event for event in self.events if wanted(event))

    def id(self):
        return self.wait_for(lambda event: event["event"] == "start")["peer"]

    def sent(self):
        with open(self.log) as file:
            return [json.loads(line) for line in file]


class Alarms(unittest.TestCase):
    def test_the_leader_dies_and_its_death_is_told(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        job = ["synthetic", "--steps", "100000", "--shards", "6", "--shard-ms", "1", "--peers", "3", "--workers", "1"]
        first = Peer(folder, "a", None, job)
        port = first.wait_for(lambda event: event["event"] == "listening")["port"]
        peers = {"a": first}
        for name in "bc":
            peers[name] = Peer(folder, name, port, job)
        self.addCleanup(lambda: [peer.process.kill() for peer in peers.values()])
        first.wait_for(lambda event: event["event"] == "view" and len(event["members"]) == 3)
        view = peers["b"].wait_for(lambda event: event["event"] == "view" and len(event["members"]) == 3)
        names = {peer.id(): name for name, peer in peers.items()}
        leader = names[view["leader"]]
        peers[leader].wait_for(lambda event: event["event"] == "step" and event["step"] > 20)
        os.kill(peers[leader].process.pid, signal.SIGKILL)
        others = [peer for name, peer in peers.items() if name != leader]
        for peer in others:
            peer.wait_for(lambda event: event["event"] == "view" and len(event["members"]) == 2)
        view = others[0].wait_for(lambda event: event["event"] == "view" and len(event["members"]) == 2)
        next_leader = peers[names[view["leader"]]]
        next_leader.wait_for(
            lambda event: event["event"] == "warning" and event["room"] == "alarm" and "peer-lost" in event["text"]
        )
        self.restart_in_vain(folder, leader, port_of(others[0]), job, next_leader, peers)
        subprocess.run([GODWIT, "stop", "--dir", os.path.join(folder, [n for n in peers if n != leader][0])], check=True)
        for peer in others:
            self.assertEqual(peer.process.wait(60), 0)
        sent = [alarm for peer in others for alarm in peer.sent()]
        lost = [alarm for alarm in sent if alarm["kind"] == "peer-lost" and not alarm["over"]]
        self.assertEqual(len({alarm["key"] for alarm in lost}), 1, sent)
        self.assertIn(leader, lost[0]["text"])
        self.assertEqual([alarm for alarm in sent if alarm["kind"] == "peer-lost" and alarm["over"]], [])
        self.assertEqual([alarm["kind"] for alarm in next_leader.sent()][-1], "stopped", sent)

    def restart_in_vain(self, folder, name, port, job, next_leader, peers):
        """The lost peer is started with another option and refused: it is as dead as before for everybody."""
        lost = peers[name].id()
        refused = Peer(folder, name, port, [*job, "--seed", "9"])
        self.assertEqual(refused.process.wait(60), 1)
        next_leader.wait_for(lambda e: e["event"] == "warning" and e["room"] == "alarm" and "is not back" in e["text"])
        for other in peers:
            if other == name:
                continue
            peers[other].wait_for(lambda e: e["event"] == "peer" and e["peer"] == lost and e["boot"] == 2 and e["state"] == "left")
            command = [GODWIT, "status", "--json", "--dir", os.path.join(folder, other)]
            seen = {"state": "alive"}
            while seen["state"] == "alive":  # The next snapshot has what the event told.
                status = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                seen = next(row for row in status["peers"] if row["id"] == lost)
            self.assertEqual((seen["state"], seen.get("started_in_vain")), ("dead", True), seen)


def port_of(peer):
    return peer.wait_for(lambda event: event["event"] == "listening")["port"]


if __name__ == "__main__":
    tap.main()
