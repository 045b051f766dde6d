"""`--join dns:NAME`: peers in pods of their own find each other by the name of a service alone, as the pods of a
StatefulSet do with a headless service, whatever the name server answers and in whatever order they come and go."""

import sys
import unittest

import world

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

SERVICE = "godwit.default.svc.cluster.local"
WORK = ("synthetic", "--shards", "8", "--shard-ms", "10", "--workers", "1")


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        world.enter()
        cls.folder = world.pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory()))
        cls.names = world.Names(cls.folder)
        cls.key = cls.folder / "key"
        world.call(world.BINARY, "keygen", cls.key)

    def setUp(self):
        self.root = world.scratch(self)
        self.names.zone, self.names.zones, self.names.mood = {}, {}, "well"
        self.pods = []
        self.addCleanup(lambda: [pod.kill() for pod in self.pods])

    def start(self, number, *options, directory=None, name=SERVICE):
        command = (world.BINARY, "run", *WORK, "--dir", self.root / f"p{directory or number}", "--key", self.key, "--json",
                   "--join", f"dns:{name}", *options)  # fmt: skip
        self.pods.append(world.Pod(number, command))
        return self.pods[-1]

    def lead(self, *pods):
        self.names.zone = {SERVICE: [address for pod in pods for address in (pod.address, pod.address6)]}

    def stop_alike(self, pods, directory):
        """The job is stopped by the peer of that directory; all end alike."""
        world.call(world.BINARY, "stop", "--no-wait", "--dir", self.root / directory)
        self.end_alike(pods)

    def end_alike(self, pods):
        """All end with the state of an undisturbed peer."""
        for pod in pods:
            self.assertEqual(pod.end(others=pods), 0, pod.shown())
        steps = pods[0].done()["steps"]
        shown = world.call(world.BINARY, "run", *WORK, "--steps", steps, "--dir", self.root / "alone", "--listen",
                           "127.0.0.1:0", "--json", "--shard-ms", "0")  # fmt: skip
        alone = world.json.loads(shown.splitlines()[-1])
        for pod in pods:
            self.assertEqual(pod.done()["state"], alone["state"], pod.shown())

    def first_step(self, pod):
        return next(event for event in pod.events if event["event"] == "step")

    def test_pods_that_start_at_once_wait_for_the_name_and_for_each_other(self):
        options = ("--peers", "3", "--steps", "60", "--join-timeout", "100ms")
        pods = [self.start(number, *options) for number in (11, 12, 13)]
        for pod in pods:
            pod.wait_log("; it is looked up again and again", others=pods)
        self.lead(pods[0])  # for the others' records the name server has an older answer
        pods[0].wait_log("leads to 2 addresses now", others=pods)
        self.lead(*pods)
        self.end_alike(pods)
        for pod in pods:  # none has begun alone, nor with some
            self.assertEqual(self.first_step(pod)["members"], 3, pod.shown())
            self.assertEqual(self.first_step(pod)["step"], 1, pod.shown())

    def test_pods_that_start_one_after_another_begin_when_all_are_there(self):
        options = ("--peers", "3", "--steps", "60", "--join-timeout", "100ms")
        pods = []
        for number in (11, 12, 13):
            pods.append(self.start(number, *options))
            self.lead(*pods)
            if len(pods) < 3:
                pods[-1].wait_log(f"waiting for 3 peers: {len(pods)} here", others=pods)
        self.end_alike(pods)
        for pod in pods:
            self.assertEqual(self.first_step(pod)["members"], 3, pod.shown())

    def test_pods_that_come_back_with_other_addresses_go_on(self):
        options = ("--peers", "3", "--checkpoint-every", "10")
        pods = [self.start(number, *options) for number in (11, 12, 13)]
        self.lead(*pods)
        for pod in pods:
            pod.wait(lambda e: e["event"] == "checkpoint", "checkpoint", others=pods)
        for pod in pods:
            pod.kill()
        self.names.mood = "broken"
        again = [self.start(number + 10, *options, directory=number) for number in (11, 12, 13)]
        again[0].wait_log("it is looked up again and again", others=again)
        self.lead(*again)
        self.names.mood = "well"
        for pod in again:
            pod.wait_view(3, others=again)
        again[0].signal(world.signal.SIGKILL)
        again[0].kill()
        last = self.start(31, *options, directory="new")
        self.lead(again[1], again[2], last)
        pods = [last, again[1], again[2]]
        last.wait_view(3, others=pods)
        self.stop_alike(pods, "pnew")

    def test_parts_that_did_not_know_of_each_other_become_one_flock(self):
        """Without --peers each begins alone, where the name leads to itself alone at first."""
        pods = []
        for number in (11, 12):
            self.names.zones[f"10.77.0.{number}"] = {SERVICE: [f"10.77.0.{number}"]}
            pods.append(self.start(number, "--join-timeout", "100ms"))
        for pod in pods:
            pod.wait_view(1, others=pods)
        marks = [len(pod.events) for pod in pods]
        self.lead(*pods)
        self.names.zones = {}
        for pod, mark in zip(pods, marks, strict=True):
            pod.wait_view(2, after=mark, others=pods)
            self.assertFalse([e for e in pod.events if "leads to this very peer" in e.get("text", "")], pod.shown())
        self.stop_alike(pods, "p11")

    def test_of_a_service_with_more_addresses_than_fit_the_living_ones_are_found(self):
        """The name server's answer has the addresses of 150 pods, of which the last two are there."""
        others = [f"10.77.1.{number}" for number in range(1, 149)]
        pods = [self.start(number, "--peers", "2", "--steps", "20") for number in (11, 12)]
        self.names.zone = {SERVICE: [*others, *(pod.address for pod in pods)]}
        pods[0].wait_log("leads to 150 addresses: each time it is looked up, 64 of them are asked", others=pods)
        self.end_alike(pods)


if __name__ == "__main__":
    tap.main(world.missing, "pods")
