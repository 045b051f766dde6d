"""Dies at places that the environment names, each once: see `kills` in tests/python/peers.py."""

import json
import os
import signal

_folder, _places = json.loads(os.environ.get("GODWIT_TEST_DEATHS", '["", []]'))


def _peer():
    """The process of the peer: the parent of this one, or of the template that this one is a fork of."""
    pid = os.getpid()
    while os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "godwit":
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    return pid


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
        if one != name:
            os.kill(_peer(), signal.SIGTERM if one.startswith("stop ") else signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
