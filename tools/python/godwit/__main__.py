"""``python -m godwit check SCRIPT [ARGUMENT...]``."""
from __future__ import annotations

import sys

from . import check


def main() -> int:
    """Runs the command that is named first."""
    if sys.argv[1:2] != ["check"]:
        print("usage: python -m godwit check [--seed N] SCRIPT [ARGUMENT...]", file=sys.stderr)
        return 2
    return check.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
