"""The manifests of tools/kubernetes: kustomize builds them, Kubernetes' schemas accept them, what they name is there, and
pods that are started as they say run a job."""

import base64
import functools
import http.client
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import world

sys.path[:0] = [str(world.HERE.parent / "lab"), str(world.HERE.parent / "tools")]
import readers  # noqa: E402
import tap  # noqa: E402

MANIFESTS = world.TREE / "tools" / "kubernetes"
VERSIONS = ("1.28", "1.37")  # of Kubernetes
VALIDATOR = "kubernetes-validate==1.37.0"
OVERLAYS = ("base", "overlays/example", "overlays/nvidia")
ZONE = "training.svc.cluster.local"


@functools.cache
def lacks():
    """The reason why manifests cannot be read here, or ''. The validator, which brings the schemas, comes from PyPI."""
    steps = (
        [sys.executable, "-m", "venv", "--clear", "venv"],
        [*"venv/bin/pip --quiet --disable-pip-version-check --timeout=10 --retries=1 install".split(), VALIDATOR],
    )
    folder, why = readers.make(VALIDATOR.replace("==", "-"), VALIDATOR, steps)
    if why:
        return why
    sys.path += map(str, folder.glob("venv/lib/python*/site-packages"))
    return "" if importlib.util.find_spec("yaml") else "there is no PyYAML"


def kustomize():
    """The command that builds a folder of kustomize's, or None."""
    for program, more in (("kustomize", ["build"]), ("kubectl", ["kustomize"])):
        if shutil.which(program):
            return [program, *more]
    return None


@functools.cache
def build(folder):
    """The documents that kustomize makes of a folder, by their kinds."""
    import yaml

    text = world.call(*kustomize(), folder)
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


class Copy(unittest.TestCase):
    """The manifests in a folder of their own, with a key."""

    @classmethod
    def setUpClass(cls):
        if lacks():
            raise unittest.SkipTest(lacks())
        cls.folder = world.pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory())) / "kubernetes"
        shutil.copytree(MANIFESTS, cls.folder)
        world.call(world.BINARY, "keygen", cls.folder / "overlays" / "example" / "cluster.key")

    def built(self, name):
        if kustomize() is None:
            self.skipTest("there is neither kustomize nor kubectl")
        return build(self.folder / name)


class Manifests(Copy):
    def test_the_schemas_accept_them_and_know_every_field(self):
        import kubernetes_validate

        for name in OVERLAYS:
            documents = self.built(name)
            self.assertLessEqual({"Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}, set(documents))
            for document in documents.values():
                for version in VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)
        wrong = {**document, "spec": {**document["spec"], "podselector": {}}}  # the check itself finds an unknown field
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)

    def test_each_file_is_valid_yaml_of_the_kind_that_it_patches(self):
        """Without kustomize: what an overlay's patches name is in the base."""
        import yaml

        base = {}
        kustomization = yaml.safe_load((self.folder / "base" / "kustomization.yaml").read_text())
        for name in kustomization["resources"]:
            document = yaml.safe_load((self.folder / "base" / name).read_text())
            base[document["kind"], document["metadata"]["name"]] = document
        listed = [*kustomization["resources"], *kustomization["configurations"], "kustomization.yaml"]
        self.assertEqual(sorted(listed), sorted(path.name for path in (self.folder / "base").iterdir()))
        for overlay in ("example", "nvidia"):
            folder = self.folder / "overlays" / overlay
            kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
            self.assertEqual(kustomization["resources"], ["../../base"])
            image = base["StatefulSet", "godwit"]["spec"]["template"]["spec"]["containers"][0]["image"]
            self.assertEqual([one["name"] for one in kustomization["images"]], [image.split(":")[0]])
            for patch in kustomization["patches"]:
                if "path" in patch:
                    target = yaml.safe_load((folder / patch["path"]).read_text())
                    self.assertIn((target["kind"], target["metadata"]["name"]), base)
                    self.assert_found(target["spec"], base[target["kind"], target["metadata"]["name"]]["spec"])
                else:
                    value = base[patch["target"]["kind"], patch["target"]["name"]]
                    for operation in yaml.safe_load(patch["patch"]):
                        for part in operation["path"].strip("/").split("/"):
                            value = value[int(part)] if isinstance(value, list) else value[part]

    def assert_found(self, patch, base):
        """Of lists whose members have names, those that a patch changes are in the base, unless it adds them."""
        for key, value in patch.items():
            if key == "containers":
                self.assertEqual([one["name"] for one in value], [one["name"] for one in base[key]])
                for one, other in zip(value, base[key], strict=True):
                    self.assert_found(one, other)
            elif isinstance(value, dict) and key in base:
                self.assert_found(value, base[key])

    def test_what_they_name_is_there(self):
        for name in OVERLAYS:
            documents = self.built(name)
            spec = documents["StatefulSet"]["spec"]
            pod = spec["template"]["spec"]
            (container,) = pod["containers"]
            labels = spec["template"]["metadata"]["labels"]
            for selector in (spec["selector"]["matchLabels"], documents["Service"]["spec"]["selector"],
                             documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                             documents["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
                             pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]):  # fmt: skip
                self.assertTrue(selector and selector.items() <= labels.items(), selector)
            self.assertEqual(spec["serviceName"], documents["Service"]["metadata"]["name"])
            claims = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
            volumes = {one["name"] for one in pod["volumes"]}
            self.assertEqual(volumes | claims, {one["name"] for one in container["volumeMounts"]})
            options = dict(arg[2:].split("=", 1) for arg in container["args"] if arg.startswith("--"))
            self.assertEqual(int(options["peers"]), spec["replicas"])
            mounts = [one["mountPath"] for one in container["volumeMounts"]]
            for option in ("dir", "key", "data", "metrics"):
                if option in options:
                    self.assertTrue(any(options[option].startswith(f"{mount}/") for mount in mounts), options[option])
            ports = {(one["containerPort"], one["protocol"]) for one in container["ports"]}
            self.assertEqual(ports, {(7117, "TCP"), (7117, "UDP"), (8080, "TCP")})
            self.assertEqual(ports, {(one["port"], one["protocol"]) for one in documents["Service"]["spec"]["ports"]})
            self.assertEqual(options["http"].rsplit(":", 1)[1], "8080")
            self.assertEqual(options["join"], "dns:$(SERVICE)")
            self.assertNotIn("livenessProbe", container)
            secret = documents.get("Secret")
            if secret:
                (key,) = (one for one in pod["volumes"] if one["name"] == "key")
                self.assertEqual(key["secret"]["secretName"], secret["metadata"]["name"])
                self.assertIn(b"Godwit", base64.b64decode(secret["data"]["cluster.key"]))

    def test_the_pods_are_what_the_standard_restricted_asks_for(self):
        """Kubernetes' Pod Security Standards."""
        for name in OVERLAYS:
            pod = self.built(name)["StatefulSet"]["spec"]["template"]["spec"]
            context = {**pod["securityContext"], **pod["containers"][0]["securityContext"]}
            self.assertTrue(context["runAsNonRoot"] and context["runAsUser"] > 0 and context["readOnlyRootFilesystem"])
            self.assertFalse(context["allowPrivilegeEscalation"])
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            self.assertEqual(context["seccompProfile"]["type"], "RuntimeDefault")
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(field, pod)
            self.assertFalse([one for one in pod["volumes"] if "hostPath" in one])

    def test_two_flocks_of_one_namespace_have_names_and_labels_of_their_own(self):
        mine = self.folder / "overlays" / "mine"
        mine.mkdir()
        (mine / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamePrefix: mine-\n"
            "resources: [../../base]\nlabels:\n"
            "- {pairs: {app.kubernetes.io/instance: mine}, includeSelectors: true, includeTemplates: true}\n"
        )
        documents = self.built("overlays/mine")
        spec = documents["StatefulSet"]["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        self.assertEqual(spec["serviceName"], "mine-godwit")
        self.assertEqual(container["env"], [{"name": "SERVICE", "value": "mine-godwit"}])
        text = json.dumps(documents)
        self.assertEqual(text.count('"app.kubernetes.io/instance": "mine"'), text.count('"app.kubernetes.io/name": "godwit"'))

    def test_the_command_lines_make_sense(self):
        """Each peer starts, as far as it can without the others."""
        corpus = self.folder / "corpus.txt"
        corpus.write_text("To be, or not to be, that is the question.\n" * 4000)
        for name in OVERLAYS:
            (container,) = self.built(name)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
            data = self.folder / "data" / name
            data.mkdir(parents=True)
            arguments = [argument.replace("/data", str(data)).replace("/key/", f"{self.folder}/overlays/example/")
                         .replace("/corpus/", f"{self.folder}/").replace("$(SERVICE)", "godwit.invalid").replace(":8080", ":0")
                         .replace("cuda:all", "auto") for argument in container["args"]]  # fmt: skip
            with subprocess.Popen([world.BINARY, *arguments, "--json", "--listen=127.0.0.1:0"], stdout=subprocess.PIPE,
                                  text=True) as peer:  # fmt: skip
                self.addCleanup(lambda peer=peer: peer.poll() is None and peer.kill())
                events = []
                for line in peer.stdout:
                    events.append(json.loads(line))
                    if events[-1]["event"] == "storage":
                        break
                self.assertEqual(events[-1]["event"], "storage", events)
                peer.send_signal(signal.SIGTERM)
                peer.stdout.read()


class Pods(Copy):
    """The pods of an overlay, made of its manifests as the kubelet makes them, with a name server for the service."""

    @classmethod
    def setUpClass(cls):
        if world.missing():
            raise unittest.SkipTest(f"no pods here: {world.missing()}")
        super().setUpClass()
        world.enter()
        cls.names = world.Names(cls.enterClassContext(world.tempfile.TemporaryDirectory()))
        cls.system = world.System(world.pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory())) / "system")
        (cls.system.root / "etc" / "resolv.conf").write_text(
            f"nameserver {world.NAMESERVER}\nsearch {ZONE} svc.cluster.local cluster.local\noptions ndots:5\n"
        )

    def setUp(self):
        self.running = {}
        self.addCleanup(lambda: [pod.kill() for pod in self.running.values()])
        work = ["run", "synthetic", "--shards=12", "--shard-ms=5", "--steps=1000", "--checkpoint-every=20", "--json",
                "--join-timeout=2s"]
        (self.folder / "overlays" / "example" / "peers.yaml").write_text(json.dumps({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "godwit"},
            "spec": {"template": {"spec": {"containers": [{"name": "godwit", "args": [
                *work, "--dir=/data/peer", "--key=/key/cluster.key", "--join=dns:$(SERVICE)", "--peers=5",
                "--http=[::]:8080"]}]}}}}))  # fmt: skip
        self.documents = self.built("overlays/example")
        self.volumes = world.scratch(self)
        self.pod = self.documents["StatefulSet"]["spec"]["template"]["spec"]
        self.secret = self.make_secret()

    def make_secret(self):
        """The volume of the secret: links, and files with its mode and of the group that fsGroup names."""
        folder = self.volumes / "secret"
        (folder / "..2026").mkdir(parents=True)
        (volume,) = (one["secret"] for one in self.pod["volumes"] if "secret" in one)
        for name, text in self.documents["Secret"]["data"].items():
            path = folder / "..2026" / name
            path.write_bytes(base64.b64decode(text))
            path.chmod(volume["defaultMode"])
            os.chown(path, 0, self.pod["securityContext"]["fsGroup"])
            (folder / name).symlink_to(f"..data/{name}")
        (folder / "..data").symlink_to("..2026")
        self.volumes.chmod(0o755)
        return folder

    def volume(self, name, index):
        """A folder of the pod's, which the kubelet gives to the group that fsGroup names."""
        folder = self.volumes / f"{name}-{index}"
        if not folder.exists():
            folder.mkdir()
            os.chown(folder, 0, self.pod["securityContext"]["fsGroup"])
            folder.chmod(0o2775)
        return folder

    def start(self, index, number):
        (container,) = self.pod["containers"]
        context = self.pod["securityContext"]
        variables = {one["name"]: one["value"] for one in container["env"]}
        arguments = [functools.reduce(lambda text, pair: text.replace(f"$({pair[0]})", pair[1]), variables.items(), argument)
                     for argument in container["args"]]  # fmt: skip
        mounts = {one["mountPath"]: self.secret if one["name"] == "key" else self.volume(one["name"], index)
                  for one in container["volumeMounts"] if one["name"] not in ("shm", "corpus")}  # fmt: skip
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        self.running[index] = self.system.start(
            number, arguments, (context["runAsUser"], context["runAsGroup"]), dict(sorted(mounts.items())), shm="64m",
            groups=[context["fsGroup"]], host=f"godwit-{index}", environment=variables)  # fmt: skip
        return self.running[index]

    def publish(self):
        self.names.zone = {f"{self.documents['Service']['metadata']['name']}.{ZONE}":
                           [pod.address for pod in self.running.values()]}  # fmt: skip

    def wait_ready(self, pod):
        """Asks as the kubelet does, again and again."""
        end = time.monotonic() + world.LIMIT_S
        while not self.is_ready(pod):
            self.assertLess(time.monotonic(), end, pod.shown())
            for one in self.running.values():
                one.pump(0.02)

    def is_ready(self, pod):
        """What the readiness probe finds."""
        probe = self.pod["containers"][0]["readinessProbe"]["httpGet"]
        (port,) = (one["containerPort"] for one in self.pod["containers"][0]["ports"] if one["name"] == probe["port"])
        connection = http.client.HTTPConnection(pod.address, port, timeout=10)
        connection.request("GET", probe["path"])
        return connection.getresponse().status == 200

    def scale_to_nothing_and_back(self, replicas):
        """Returns the step that the job goes on from."""
        for pod in self.running.values():
            pod.signal(signal.SIGTERM)
        for pod in self.running.values():
            self.assertEqual(pod.end(others=self.running.values()), 0, pod.shown())
            self.assertIn(pod.done()["outcome"], ("left", "stopped"), pod.shown())
            pod.kill()
        for index in range(replicas):
            self.start(index, 61 + index)
        self.publish()
        return self.running[0].wait(lambda e: e["event"] == "resumed", "resumed", others=self.running.values())["step"]

    def test_the_pods_of_the_example_run_a_job_through_a_rolling_restart(self):
        replicas = self.documents["StatefulSet"]["spec"]["replicas"]
        for index in range(replicas - 1):
            self.start(index, 11 + index)
        self.publish()
        first = self.running[0]
        first.wait_log(f"waiting for {replicas} peers: {replicas - 1} here", others=self.running.values())
        self.assertFalse(self.is_ready(first))
        self.start(replicas - 1, 11 + replicas - 1)
        self.publish()
        for pod in self.running.values():
            pod.wait_view(replicas, others=self.running.values())
            self.wait_ready(pod)
        last = self.running[replicas - 1]
        self.assertEqual(next(e for e in last.events if e["event"] == "opening")["peer_name"], f"godwit-{replicas - 1}")
        last.signal(signal.SIGTERM)
        self.assertEqual(last.end(others=self.running.values()), 0, last.shown())
        last.kill()
        again = self.start(replicas - 1, 41)  # with its volume, and another address
        self.publish()
        again.wait_view(replicas, others=self.running.values())
        last = max(event["step"] for event in self.running[0].events if event["event"] == "step")
        self.assertGreaterEqual(self.scale_to_nothing_and_back(replicas), last)
        states = set()
        for pod in self.running.values():
            self.assertEqual(pod.end(others=self.running.values()), 0, pod.shown())
            states.add(pod.done()["state"])
        self.assertEqual(len(states), 1)
        self.running[0].kill()  # a StatefulSet starts what has ended again, and it finds that the job is done
        done = self.start(0, 51)
        self.assertEqual(done.end(), 0, done.shown())
        self.assertEqual(done.done()["state"], states.pop())
        self.assertFalse([event for event in done.events if event["event"] == "step"], done.shown())


if __name__ == "__main__":
    tap.main(lambda: None if world.BINARY.exists() else "it is not built", "manifests")
