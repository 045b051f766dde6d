"""Python suites beside the Criterion ones: unittest, with the results in a TAP file for ./build.sh test.

A suite ends with `if __name__ == "__main__": tap.main()`, and is run as `test_NAME.py --tap=FILE`; without a file the
results go to stdout. Where this host can have no lab (or what else it needs, by its own `missing`) every test of it
counts as skipped, with the reason.
"""

import argparse
import contextlib
import os
import sys
import traceback
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab"))
import machines  # noqa: E402


class Tap(unittest.TestResult):
    """Writes each result as it comes, so that a suite that dies half way shows what it had done."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def write(self, line):
        print(line.replace("\n", " "), file=self.file, flush=True)

    def name(self, test):
        return getattr(test, "_testMethodName", str(test))  # a class's set-up has no method

    def addSuccess(self, test):
        super().addSuccess(test)
        self.write(f"ok - {self.name(test)}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write(f"ok - {self.name(test)} # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.write(f"not ok - {self.name(test)}")
        traceback.print_exception(*err)

    def addError(self, test, err):
        super().addError(test, err)
        self.write(f"not ok - {self.name(test)}")
        traceback.print_exception(*err)


def methods(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from methods(test)
        else:
            yield test


def main(missing=machines.missing, what="lab"):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--tap", metavar="FILE", help="where the results go (default: stdout)")
    path = parser.parse_args().tap
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    with open(path, "w") if path else contextlib.nullcontext(sys.stdout) as file:
        result = Tap(file)
        result.write(f"1..{suite.countTestCases()}")
        reason = missing()
        if reason:
            for test in methods(suite):
                result.addSkip(test, f"no {what} here: {reason}")
        else:
            suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
