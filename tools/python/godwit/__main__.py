"""``python -m godwit``: the command ``godwit``, and the check, which is this module's own."""
from __future__ import annotations

import sys

import godwit_command

from . import check, pin, session
from .errors import Error


def main() -> int:
    """Runs the command line."""
    if sys.argv[1:2] == ["check"]:
        return check.main(sys.argv[2:])
    try:
        program = session.find_binary()
    except Error as error:
        sys.exit(f"godwit: {error}")
    godwit_command.become(program, sys.argv[1:], pin.given)


if __name__ == "__main__":
    sys.exit(main())
