"""Python suites beside the Criterion ones: unittest, with the results in a TAP file for ./build.sh test.

A suite ends with `if __name__ == "__main__": tap.main()`, and is run as `test_NAME.py --tap=FILE`; without a file the
results go to stdout. Where this host can have no lab (or what else it needs, by its own `missing`) every test of it
counts as skipped, with the reason.
"""

import argparse
import contextlib
import os
import re
import sys
import traceback
import unittest
import unittest.util

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab"))
import machines  # noqa: E402


class Tap(unittest.TestResult):
    """Writes each result as it comes, so that a suite that dies half way shows what it had done. Each test has one result:
    that of a class or of the module where that could not be set up, and it failed if a part of it did."""

    def __init__(self, file, tests):
        super().__init__()
        self.file = file
        self.tests = tests
        self.failed = set()

    def write(self, line):
        print(line.replace("\n", " "), file=self.file, flush=True)

    def names(self, test):
        """The names of the tests that a result is for."""
        if hasattr(test, "_testMethodName"):
            return [test._testMethodName]
        found = re.fullmatch(r"setUp(Class|Module) \((.*)\)", str(test))
        of = {"Class": unittest.util.strclass, "Module": lambda kind: kind.__module__}
        return [each._testMethodName for each in self.tests if of[found[1]](type(each)) == found[2]] if found else [str(test)]

    def fail(self, test, err):
        traceback.print_exception(*err)
        if test.id() not in self.failed:
            self.failed.add(test.id())
            for name in self.names(test):
                self.write(f"not ok - {name}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.write(f"ok - {self.names(test)[0]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        for name in self.names(test):
            self.write(f"ok - {name} # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.fail(test, err)


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
        tests = list(methods(suite))
        result = Tap(file, tests)
        result.write(f"1..{len(tests)}")
        reason = missing()
        if reason:
            for test in tests:
                result.addSkip(test, f"no {what} here: {reason}")
        else:
            suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
