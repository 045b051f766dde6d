"""Dies at places that the environment names, each once: see `kills` in tests/python/peers.py."""

import json
import os
import signal

_folder, _places = json.loads(os.environ.get("GODWIT_TEST_DEATHS", '["", []]'))


def _parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def at(*place):
    """Kills this process where the place is named and this is the first to come here; the peer before it, or asks
    it to leave, where the name begins with `peer` or `stop`."""
    name = " ".join(map(str, place))
    for one in (name, f"peer {name}", f"stop {name}"):
        if one not in _places:
            continue
        try:
            os.close(os.open(os.path.join(_folder, one), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        if one != name:  # a worker's parent is the template, whose parent is the peer
            peer = _parent(_parent(os.getpid()))
            os.kill(peer, signal.SIGTERM if one.startswith("stop ") else signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
