"""The role of tools/ansible and its example: Ansible reads them, and the linter of Ansible has nothing to say. The suite
ansible_hosts runs them on hosts."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

FOLDER = HERE.parent.parent / "tools" / "ansible"


def missing():
    return None if shutil.which("ansible-playbook") else "there is no ansible-playbook"


class Role(unittest.TestCase):
    def call(self, *command):
        done = subprocess.run(command, cwd=FOLDER / "example", capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"})  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_the_playbook_is_well_formed(self):
        code, text = self.call("ansible-playbook", "--syntax-check", "site.yml")
        self.assertEqual(code, 0, text)

    def test_the_tasks_are_those_that_the_variables_ask_for(self):
        """What is wrong in the inventory is told before any host is changed."""
        wrong = ("--extra-vars", "godwit_binary=/bin/true ansible_connection=local ansible_become=false")
        code, text = self.call("ansible-playbook", "--check", "site.yml", *wrong)
        self.assertNotEqual(code, 0, text)
        self.assertIn("Give exactly one of godwit_package, godwit_archive and godwit_binary", text)
        self.assertNotIn("changed=1", text)

    def test_each_file_of_the_units_is_there(self):
        tasks = (FOLDER / "roles" / "godwit" / "tasks" / "files.yml").read_text()
        units = [line.strip("- ") for line in tasks.splitlines() if line.strip().startswith("- godwit")]
        self.assertEqual(len(units), 3)
        for unit in units:
            self.assertTrue((FOLDER.parent / "systemd" / unit).is_file(), unit)

    @unittest.skipUnless(shutil.which("ansible-lint"), "there is no ansible-lint")
    def test_the_linter_has_nothing_to_say(self):
        code, text = self.call("ansible-lint", "--offline", "-q", "--nocolor", "../roles", "site.yml")
        self.assertEqual(code, 0, text)


if __name__ == "__main__":
    tap.main(missing, "Ansible")
