"""Keeps a lab's network namespace and its machines' processes; machines.py starts it as `unshare --net keeper.py`.

Requests come in as lines of JSON on stdin, answers and the news that a process ended go out on stdout. The end of
stdin is the end of the lab: the tool closed it, or died in whatever way. Then every process is killed, the lab's
folder removed, and with this process the namespace goes. Should this process be killed itself, the kernel kills
what it started.

usage: keeper.py FOLDER
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys

from flock import bind_life


class Keeper:
    def __init__(self):
        self.children = {}  # pid: Popen

    def say(self, **words):
        try:
            os.write(1, (json.dumps(words) + "\n").encode())
        except OSError:
            pass  # the reader is gone, which the end of stdin shows too

    def spawn(self, command, log):
        with open(log, "wb") as file:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                     preexec_fn=bind_life)
        self.children[child.pid] = child
        return {"pid": child.pid}

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return {"code": done.returncode, "output": done.stdout + done.stderr}

    def signal(self, pid, number):
        child = self.children.get(pid)
        if child is None:
            return {"sent": False}
        child.send_signal(number)
        return {"sent": True}

    def answer(self, line):
        request = json.loads(line)
        try:
            answer = getattr(self, request["do"])(*request["with"])
        except OSError as error:
            answer = {"error": str(error)}
        self.say(**answer)

    def reap(self):
        for pid, child in list(self.children.items()):
            if child.poll() is not None:
                del self.children[pid]
                self.say(ended=pid, code=child.returncode)

    def serve(self):
        wake_read, wake_write = os.pipe()
        for end in (wake_read, wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *ignored: None)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake_read, selectors.EVENT_READ)
        pending = b""
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                if key.fd == wake_read:
                    self.reap()
                    continue
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self.answer(line)

    def close(self):
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            child.wait()


def main():
    keeper = Keeper()
    try:
        keeper.serve()
    finally:
        keeper.close()
        shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
