"""Five tasks of two units each, on nodes that have 6, 4 and 8 units: who gets what.

Shows a flock of three members on loopback (`godwit up --cores`), five jobs (`godwit submit --cores 2`), and where they
run (`godwit queue`, `godwit nodes`): all at once, and no node has more than its units. Nobody coordinates: each member
computes the same allotment by itself.

    python3 tools/examples/flock/tasks.py
"""

import collections
import json
import os

from example import check
from loopback import flock, tell, until

NODES, TASKS, UNITS = {"six": 6, "four": 4, "eight": 8}, 5, 2
# A task says that it has begun, and goes on when it is told to: so all of them are seen at work.
WORK = "touch begun.$0; until [ -e go ]; do sleep 0.05; done; echo task $0 is done"


def main():
    with flock(NODES) as members:
        print(f"Three members: {', '.join(f'{name} with {units} units' for name, units in NODES.items())}.\n")
        asked, *_, other = members
        begun = [os.path.join(members.folder, f"begun.{i}") for i in range(1, TASKS + 1)]
        for i in range(1, TASKS + 1):
            tell(asked, "submit", "--name", f"task-{i}", "--cores", str(UNITS), "--", "sh", "-c", WORK, str(i))
        until("the beginning of all tasks", lambda: all(map(os.path.exists, begun)))
        tell(other, "queue")
        tell(other, "nodes")
        views = [json.loads(member.do("queue", "--json"))["jobs"] for member in members]
        open(os.path.join(members.folder, "go"), "w").close()
        tell(asked, "wait", *(f"task-{i}" for i in range(1, TASKS + 1)))
        said = [asked.logs(f"task-{i}") for i in range(1, TASKS + 1)]

    placed = [{job["name"]: [node["name"] for node in job["nodes"]] for job in view} for view in views]
    used = collections.Counter()
    for nodes in placed[0].values():
        used.update({node: UNITS for node in nodes})
    print("Used while all ran:", ", ".join(f"{used[name]} of {units} units of {name}" for name, units in NODES.items()) + ".")
    check(all(len(nodes) == 1 for nodes in placed[0].values()) and sum(used.values()) == TASKS * UNITS,
          "all five tasks ran at once, each on one node")
    check(all(used[name] <= units for name, units in NODES.items()), "no node had more than its units")
    check(all(view == placed[0] for view in placed), "all members saw the same allotment")
    check(said == [f"task {i} is done\n" for i in range(1, TASKS + 1)], "each task has ended with what it was to write")


if __name__ == "__main__":
    main()
