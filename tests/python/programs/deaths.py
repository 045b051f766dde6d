"""Dies at places that the environment names, each once: see `kills` in tests/python/peers.py."""

import json
import os
import signal
import time

_folder, _places = json.loads(os.environ.get("GODWIT_TEST_DEATHS", '["", []]'))


def _peer():
    """The process of the peer: the parent of this one, or of the template that this one is a fork of."""
    pid = os.getpid()
    while os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "godwit":
        pid = _parent(pid)
    return pid


def _parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _spares():
    """The template's forks that wait to become workers: they have no arenas yet."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/maps") as file:
                if _parent(pid) == os.getppid() and "godwit-own" not in file.read():
                    found.append(pid)
        except OSError:  # it has ended
            continue
    return found


def _kill_spares():
    """Kills the forks that wait, as soon as there is one."""
    patience = time.monotonic() + 60
    while not _spares():
        if time.monotonic() > patience:
            raise AssertionError("the template makes no fork ahead")
        time.sleep(0.01)
    for pid in _spares():
        os.kill(pid, signal.SIGKILL)


def at(*place):
    """Kills this process where the place is named and this is the first to come here; before it the peer, or the forks
    that wait to replace it, where the name begins with `peer` or `spare`; `stop` asks the peer to leave."""
    name = " ".join(map(str, place))
    for one in (name, f"peer {name}", f"stop {name}", f"spare {name}"):
        if one not in _places:
            continue
        try:
            os.close(os.open(os.path.join(_folder, one), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        if one.startswith("spare "):
            _kill_spares()
        elif one != name:
            os.kill(_peer(), signal.SIGTERM if one.startswith("stop ") else signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
