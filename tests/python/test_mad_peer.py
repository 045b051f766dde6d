"""A peer that sends anything at any time: a worker answers with whole messages or ends by itself, and never hangs, dies by
a signal or prints a stack. The seeds are fixed."""

import array
import contextlib
import os
import random
import select
import socket
import sys
import tempfile
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
sys.path.insert(0, peers.MODULE)
import tap  # noqa: E402
from godwit import protocol, session, worker  # noqa: E402
from godwit.protocol import Kind  # noqa: E402

CASES = 400
LIMIT_S = 300
FROM_WORKERS = range(64, 128)
TENSORS = [
    protocol.Tensor(1, protocol.DType.F32, 0, 0, 0, (3,), "weight"),
    protocol.Tensor(1, protocol.DType.U8, 0, 0, protocol.ALIKE, (64,), "numbers"),
]
SUMS = [protocol.Tensor(2, protocol.DType.F32, 5 | 32, 40, 0, (3,), "gradient")]


class Stub(worker.Program):
    """A program that touches all that it is given."""

    def __init__(self):
        options = protocol.Options(4, 5, 2, 1, 2, 0.0, protocol.HAS_ONCE | protocol.HAS_AFTER)
        self.description = protocol.Description(options, TENSORS, SUMS, {"python": "3"}, False)
        self.layout = protocol.Layout(self.description)

    def initial(self, memory):
        memory[:] = bytes(len(memory))

    def attach(self, arenas):
        self.arenas = arenas

    def shard(self, request):
        self.arenas.own[:] = bytes([request.shard & 255]) * len(self.arenas.own)

    def part(self, request):
        self.arenas.next[:] = self.arenas.state[:]

    def once(self, request):
        return bool(request.reports)

    def after(self, request):
        bytes(self.arenas.state)

    def finish(self, request):
        bytes(self.arenas.state)


def serve(fd, errors):
    """The worker's process."""
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    sys.stdout = sys.stderr = open(2, "w", closefd=False)
    try:
        worker.serve(session.Session(protocol.Tie(fd)), Stub())
    except SystemExit as error:
        print(error.code, file=sys.stderr, flush=True)
        os._exit(1)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(9)
    os._exit(0)


def totals(writer):
    return protocol.Totals(4, 2.0, 1.0, 1.0).write(writer)


class Peer:
    """The mad one."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.errors = tempfile.TemporaryFile()
        self.tie, self.fds = ours, []
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            serve(theirs.detach(), self.errors.fileno())
        theirs.close()
        layout = Stub().layout
        self.sizes = layout.state_bytes, layout.own_bytes

    def memory(self, size):
        if self.rng.random() < 0.03:  # a descriptor of something else, or too small
            fd = self.rng.choice([lambda: os.open("/dev/null", os.O_RDWR), lambda: os.memfd_create("small")])()
        else:
            fd = os.memfd_create("memory")
            os.ftruncate(fd, size)
        self.fds.append(fd)
        return fd

    def sane(self, kind):
        """A message as a peer sends it, and its descriptors."""
        w, fds, state, own = protocol.Writer(kind), [], *self.sizes
        step = self.rng.randrange(6)
        if kind == Kind.WELCOME:
            w = protocol.Welcome(protocol.Role.WORKER, True, 1, 1, 0, 7, "", "SkylakeX").write()
        elif kind == Kind.INIT:
            fds = [self.memory(state)]
        elif kind == Kind.ARENAS:
            w.put("QQ", state, own)
            fds = [self.memory(state), self.memory(state), self.memory(own)]
        elif kind == Kind.SHARD:
            w = protocol.Shard(step, step, protocol.Phase.TRAIN, 1, self.rng.randrange(4), 4).write()
        elif kind in REQUESTS:
            w = REQUESTS[kind](step)
        return bytes(w.bytes), fds

    def damaged(self, data):
        """Some bytes are others, missing, or too many."""
        data = bytearray(data)
        for _ in range(self.rng.choice([0] * 9 + [1, 2])):
            at = self.rng.randrange(len(data) + 1)
            way = self.rng.randrange(4)
            if way == 0 and at < len(data):
                data[at] = self.rng.choice([0, 1, 2, 127, 128, 255, self.rng.randrange(256)])
            elif way == 1:
                del data[at:]
            elif way == 2:
                data[at:at] = self.rng.randbytes(self.rng.choice([1, 4, 300]))
            else:
                data += bytes(self.rng.choice([1, 70000]))
        return bytes(data)

    def send(self, kind):
        """Sends a message of that kind, or something like it. Returns whether it was taken."""
        data, fds = self.sane(kind)
        data = self.damaged(data)
        if self.rng.random() < 0.03:
            fds = fds[1:] or [self.memory(64)] * self.rng.randrange(5)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
        try:
            self.tie.sendmsg([data], rights, socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return bool(data)

    def hear(self):
        """Waits until the worker has nothing more to say for now. Returns the kinds of its messages; None at the end."""
        kinds = []
        while True:
            # The last message of a description, and each reply, is followed by silence.
            wait = 0 if kinds and kinds[-1] in ENDS else LIMIT_S
            if not select.select([self.tie], [], [], wait)[0]:
                assert kinds, "the worker hangs"
                return kinds
            try:
                data = self.tie.recv(1 << 17)
            except ConnectionResetError:
                return None
            if not data:
                return None
            reader = protocol.Reader(data)
            assert reader.kind in FROM_WORKERS, reader.kind
            # What is wrong is the peer, and no error of the program.
            assert reader.kind != Kind.ERROR or reader.get("B")[0] != protocol.Fault.RAISED, data
            kinds.append(reader.kind)

    def rave(self):
        """A conversation. Returns how the worker has ended, and what it has printed."""
        plan = [Kind.WELCOME, Kind.INIT, Kind.ARENAS]
        plan += [self.rng.choice(KINDS) for _ in range(self.rng.randrange(8))] + [Kind.FINISH, Kind.LEAVE]
        if self.rng.random() < 0.2:
            del plan[self.rng.randrange(len(plan))]
        for kind in plan:
            if not self.send(kind) or kind == Kind.LEAVE or self.hear() is None:
                break
        self.tie.close()
        ended = os.pidfd_open(self.pid)
        hangs = not select.select([ended], [], [], LIMIT_S)[0]
        os.close(ended)
        if hangs:
            os.kill(self.pid, 9)
        _, status = os.waitpid(self.pid, 0)
        for fd in set(self.fds):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.errors.seek(0)
        return status, self.errors.read().decode(errors="replace")


REQUESTS = {
    Kind.PART: lambda step: protocol.Part(step, step, 1, step % 2, protocol.Totals(4, 2.0, 1.0, 1.0)).write(),
    Kind.ONCE: lambda step: totals(protocol.Writer(Kind.ONCE).put("QQBQ", step, step, 1, 1)).put("H", 0),
    Kind.AFTER: lambda step: protocol.Writer(Kind.AFTER).put("QQBQH", step, step, 1, 1, 0),
    Kind.FINISH: lambda step: protocol.Writer(Kind.FINISH).put("QQH", step, step, 0),
    Kind.FORK: lambda step: protocol.Writer(Kind.FORK).put("I", step),
}
KINDS = [Kind.SHARD] * 4 + [Kind.PART, Kind.ONCE, Kind.AFTER, Kind.FORK, Kind.INIT, Kind.ARENAS, Kind.WELCOME, Kind.LEAVE, Kind.SAMPLES]
ENDS = (Kind.DESCRIBED, Kind.DONE, Kind.UPDATED, Kind.SAMPLED, Kind.ERROR)


class Mad(unittest.TestCase):
    def test_a_worker_answers_or_ends_whatever_its_peer_sends(self):
        ends = {}
        for seed in range(CASES):
            status, printed = Peer(seed).rave()
            self.assertTrue(os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 1), (seed, status, printed))
            self.assertNotIn("Traceback", printed, seed)
            self.assertTrue(printed == "" or "godwit: " in printed, (seed, printed))
            ends[os.WEXITSTATUS(status)] = ends.get(os.WEXITSTATUS(status), 0) + 1
        self.assertGreater(min(ends.get(0, 0), ends.get(1, 0)), CASES // 10, ends)


if __name__ == "__main__":
    tap.main(missing=lambda: "", what="peers")
