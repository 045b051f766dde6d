"""The rules of the house (tests/lint.sh) in a small tree: each one complains of what breaks it. The programs that it
calls have stand-ins."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lab"), str(HERE.parent)]
import circles  # noqa: E402
import tap  # noqa: E402

LINT = HERE.parent / "lint.sh"
SCRIPTS = (LINT, *(HERE.parent / name for name in ("rooms.py", "parts.py", "circles.py", "pages.py", "comments.py")))
MOST_FRAGMENTS = int(re.search(r"^most_fragments=(\d+)", LINT.read_text(), re.MULTILINE)[1])
SURROUNDINGS = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # as a hook has them
PROGRAMS = ("clang-format", "clang-tidy", "shellcheck")
SOUND = {
    "tests/rooms.txt": """# A small house.
floor core
core/brain/step
core/brain
floor net on core
net/loop
net/link
floor kernels on core
kernels/cuda/math
floor godwit on core net kernels
tools/godwit/node
""",
    "tests/analyzer.h": "#ifndef GODWIT_TESTS_ANALYZER_H\n#endif\n",
    "core/brain/step/steps.c": "void f(void) { p->step.count = 1; }\n",
    "core/brain/inside.h": "#ifndef GODWIT_CORE_BRAIN_INSIDE_H\n#endif\n",
    "net/link/link.c": '#include "net/loop/loop.h"\n',
    "core/brain/peer.h": "#ifndef GODWIT_CORE_BRAIN_PEER_H\n#define GODWIT_CORE_BRAIN_PEER_H\n#endif\n",
    "core/brain/peer.c": '#include "core/brain/peer.h"\n#include <string.h>\n',
    "kernels/cuda/math/block.cuh": "#ifndef GODWIT_KERNELS_CUDA_MATH_BLOCK_CUH\n#endif\n",
    "net/loop/loop.c": '#include "core/brain/peer.h"\n#include <sys/socket.h>\n',
    "tools/godwit/node/node.h": '#ifndef GODWIT_GODWIT_NODE_NODE_H\n#include "net/loop/loop.h"\n#endif\n',
}

# Of each rule of lint.sh about includes, in their order: what breaks it.
BREAKS = [
    [("core/brain", f"<{name}.h>") for name in ("sys/socket", "netinet/in", "arpa/inet", "unistd", "pthread", "time")],
    [(folder, name) for folder in ("core/brain", "tests/core") for name in ('"../x.h"', '"./x.h"', '"net/../x.h"')],
]

# What breaks the order of rooms: a folder, a header that a file of it includes, and the complaint.
OUT_OF_ORDER = [
    ("core/brain", "net/loop/loop.h", "core/brain does not stand on net/loop"),
    ("net/loop", "kernels/cuda/math/block.cuh", "net/loop does not stand on kernels/cuda/math"),
    ("net/loop", "net/link/link.h", "net/loop does not stand on net/link"),
    ("core/brain/step", "core/brain/peer.h", "core/brain/step does not stand on core/brain"),
    ("net/loop", "core/brain/inside.h", "which is private to core/brain"),
    ("net/loop", "core/attic/a.h", "which is in no room"),
    ("net/attic", "core/brain/peer.h", "net/attic is not in tests/rooms.txt"),
]


class Rules(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(os.path.realpath(self.enterContext(tempfile.TemporaryDirectory())))
        self.tree = self.root / "tree"
        (self.tree / "tests").mkdir(parents=True)
        for script in SCRIPTS:
            shutil.copy(script, self.tree / "tests")
        (self.root / "bin").mkdir()
        for name in PROGRAMS:
            (self.root / "bin" / name).write_text(f'#!/bin/sh\necho {name}: "$@"\n[ "$FAILS" != {name} ]\n')
            (self.root / "bin" / name).chmod(0o700)
        for path, text in SOUND.items():
            self.write(path, text)
        commands = [{"file": str(self.tree / "core" / "brain" / "peer.c")}]
        (self.root / "compile_commands.json").write_text(json.dumps(commands, indent=1))
        self.git("init", "-q")

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.tree, env=SURROUNDINGS, check=True, capture_output=True)

    def write(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_text(text)

    def lint(self, fails=""):
        """(exit code, complaints)"""
        surroundings = {**SURROUNDINGS, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "FAILS": fails}
        command = [self.tree / "tests" / "lint.sh", self.root]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def assert_complains(self, *words):
        code, said = self.lint()
        self.assertEqual(code, 1, words)
        for word in words:
            self.assertIn(word, said)

    def test_a_sound_tree_is_clean(self):
        self.assertEqual(self.lint(), (0, ""))

    def test_each_rule_about_includes_fires(self):
        self.assertEqual(len(re.findall("^forbid ", LINT.read_text(), re.MULTILINE)), len(BREAKS))
        lines = []
        for i, (folder, name) in enumerate(one for rule in BREAKS for one in rule):
            self.write(f"{folder}/broken{i}.c", f"\n#include {name}\n")
            lines.append(f"\n{folder}/broken{i}.c:2:#include {name}\n")
        self.assert_complains(*lines)

    def test_rooms_stand_in_their_order(self):
        for i, (folder, header, _) in enumerate(OUT_OF_ORDER):
            self.write(f"{folder}/broken{i}.c", f'#include "{header}"\n')
        self.assert_complains(*(complaint for _, _, complaint in OUT_OF_ORDER))

    def test_what_pages_and_comments_name_is_there(self):
        self.write("core/README.md", "# Core\n\n`core/brain/peer.c`, `gw_peer_step`, [it](#core), [up](../README.md)\n")
        self.write("README.md", "`brain/peer.h` is in [core](core/README.md#core)\n")
        self.write("net/loop/timer.c", "/* core/brain/old.h */\nvoid gw_timer(void); /* as in\n old_timer.c */\n")
        self.assert_complains(
            "README.md: it names brain/peer.h", "core/README.md: it names gw_peer_step",
            "net/loop/timer.c:1: it names core/brain/old.h", "net/loop/timer.c:2: its comment names old_timer.c",
        )
        self.write("README.md", "`core/brain/` is in [core](core/README.md#heart), [there](core/b.md)" + " " * 9000)
        self.assert_complains("core/README.md#heart leads to no heading", "core/b.md leads nowhere", "8192 is the most")
        self.write("README.md", "`core/brain/` is in [core](core/README.md#core)\n")
        self.write("core/README.md", "# Core\n\n`gw_timer` is in `net/loop/timer.c`.\n")
        self.write("net/loop/timer.c", "/* core/brain/peer.h */\nvoid gw_timer(void);\n")
        self.assertEqual(self.lint(), (0, ""))

    def test_the_tests_that_found_md_names_are_there(self):
        self.write("tests/net/loop/test_loop.c", "Test(loop, it_turns) {}\n")
        self.write("tests/found.md", "- It stood. It turns. (`net/loop/test_loop.c`\n  `it_turns`)\n")
        self.assertEqual(self.lint(), (0, ""))
        self.write("tests/found.md", "\n- It stood. (`net/loop/test_loop.c` `it_turns`, `it_stands`; `net/test_a.c` `b`)\n")
        self.assert_complains("tests/found.md:2: it names it_stands, which its file does not have",
                              "tests/found.md:2: it names net/test_a.c, which is not there")

    def test_there_are_no_more_fragments_among_comments(self):
        self.write("net/loop/said.c", "/* And so on. */\n" * MOST_FRAGMENTS)
        self.assertEqual(self.lint(), (0, ""))
        self.write("net/loop/said.c", "/* And so on. */\n" * (MOST_FRAGMENTS + 1))
        self.assert_complains(f"more than {MOST_FRAGMENTS} comments are fragments")

    def test_the_tests_of_a_room_include_no_higher_floor(self):
        self.write("tests/tools/node/test_node.c", '#include "net/loop/loop.h"\n')
        self.write("tests/net/test_all.c", '#include "core/brain/peer.h"\n#include "kernels/cuda/math/block.cuh"\n')
        self.write("tests/net/link/test_link.c", '#include "net/link/link.h"\n')
        self.assertEqual(self.lint(), (0, ""))
        self.write("tests/core/brain/test_peer.c", '#include "net/loop/loop.h"\n')
        self.assert_complains("tests/core/brain/test_peer.c: includes net/loop/loop.h, but the floor core does not stand on")

    def test_a_room_without_code_leaves_the_table(self):
        (self.tree / "net/link/link.c").unlink()
        self.assert_complains("there is no code in net/link")

    def test_a_part_of_a_peers_state_is_written_by_its_room(self):
        writes = ("p->step.count = 2;", "peer->step.list[3].x |= 1;", "p->step.count++;")
        self.write("core/brain/other.c", "".join(f"void g{i}(void) {{ {write} }}\n" for i, write in enumerate(writes)))
        self.assert_complains(*(f"core/brain/other.c:{i + 1}: writes p->step" for i in range(len(writes))))
        self.write("core/brain/other.c", "bool g(void) { return p->step.count == 2; }\n")
        self.assertEqual(self.lint(), (0, ""))

    def test_a_part_of_a_peers_state_is_written_by_no_other_room_through_a_pointer(self):
        parts = ("outbox", "agenda", "record", "state", "commit", "members", "faults", "save", "step", "view")
        header = "#ifndef GODWIT_CORE_BRAIN_STATE_H\ntypedef struct gw_part { int count; } gw_part;\nstruct gw_peer {\n"
        self.write("core/brain/state.h", header + "".join(f"    gw_part {part};\n" for part in parts) + "};\n#endif\n")
        self.write("core/brain/members/state.h", "#ifndef GODWIT_CORE_BRAIN_MEMBERS_STATE_H\n#endif\n")
        code = '#include "core/brain/state.h"\nvoid f(struct gw_peer *p) {\n    gw_part *part = &p->%s;\n    part->count = 1;\n}\n'
        table = self.tree / "tests/rooms.txt"
        rooms = ("core/brain/step\ncore/brain\n", "core/brain\ncore/brain/members\ncore/brain/step\n")
        table.write_text(table.read_text().replace(*rooms))
        self.write("core/brain/step/steps.c", code % "step")
        self.write("core/brain/peer.c", "")
        self.assertEqual(self.lint(), (0, ""))
        self.write("core/brain/step/steps.c", code % "view")
        self.assert_complains("core/brain/step/steps.c:3: a part of gw_peer that is not its own")

    def test_the_files_of_the_brain_call_each_other_in_no_circle(self):
        self.write("core/brain/step/steps.c", "bool gw_steps_end(int count)\n{\n    return gw_view_of(count);\n}\n")
        self.write("core/brain/view.c", "bool gw_view_of(int count) {\n    return count > 1;\n}\n")
        self.write("core/brain/peer.c", "/* gw_steps_end */\nvoid gw_peer_act(void) {\n    gw_steps_end(1);\n}\n")
        self.assertEqual(self.lint(), (0, ""))
        self.write("core/brain/view.c", "bool gw_view_of(int count) {\n    gw_peer_act();\n    return count > 1;\n}\n")
        self.assert_complains("these files of core/brain call each other in a circle:\n"
                              "    core/brain/peer.c calls steps.c: gw_steps_end\n"
                              "    core/brain/step/steps.c calls view.c: gw_view_of\n"
                              "    core/brain/view.c calls peer.c: gw_peer_act\n")
        with contextlib.chdir(HERE.parent.parent):
            calls = circles.calls_in_tree()
        self.assertGreater(sum(map(len, calls.values())), 100)  # it understands the files as they are

    def test_a_folder_has_45_files_of_code_at_most(self):
        for i in range(43):  # beside loop.c
            self.write(f"net/loop/a{i}.c", "")
        self.assertEqual(self.lint(), (0, ""))
        self.write("net/loop/b.c", "")
        self.write("net/loop/c.c", "")
        self.assert_complains("net/loop: 46 files of code")

    def test_a_file_does_not_repeat_its_folders_name(self):
        self.write("net/loop/loop_timer.c", "")
        self.assert_complains("net/loop/loop_timer.c: its name repeats its folder's")

    def test_a_file_has_1200_lines_at_most(self):
        self.write("net/loop/long.c", "\n" * 1200)
        self.assertEqual(self.lint(), (0, ""))
        self.write("net/loop/long.c", "\n" * 1201)
        self.assert_complains("net/loop/long.c: 1201 lines")

    def test_a_header_is_guarded_by_its_path(self):
        self.write("core/brain/a.h", "#ifndef GODWIT_CORE_B_H\n")
        self.write("kernels/cuda/math/a.cuh", "#pragma once\n")
        self.assert_complains("core/brain/a.h: its guard should be GODWIT_CORE_BRAIN_A_H",
                              "kernels/cuda/math/a.cuh: its guard should be GODWIT_KERNELS_CUDA_MATH_A_CUH")

    def test_what_a_program_made_is_not_tracked(self):
        made = ["build-asan/a.txt", "tools/__pycache__/a.txt", "core/peer.o"]
        for path in made:
            self.write(path, "")
        self.assertEqual(self.lint(), (0, ""))
        self.git("add", "--force", *made)
        self.assert_complains(*made)

    def test_a_build_that_compiles_none_of_its_files_is_not_clean(self):
        (self.root / "compile_commands.json").write_text("[]")
        self.assert_complains("names no file of this tree")

    def test_each_program_is_heeded(self):
        for name in PROGRAMS:
            self.assertEqual(self.lint(fails=name)[0], 1, name)


if __name__ == "__main__":
    tap.main(lambda: None if shutil.which("git") else "it is not installed", "git")
