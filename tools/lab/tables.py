"""How the measurements are shown: rows of what was measured, and what it should reach."""

import statistics

WRONGS = []  # failures that no slow machine excuses: they are repeated at the end, and the exit code is 1
TITLES = []  # titles of the tables; the rows belong to the last


def table(title):
    print(f"\n== {title}", flush=True)
    TITLES.append(title)


def row(what, measured, reach="", good=True):
    print(f"{what:<44} {measured:>20}  {reach}", flush=True)
    if not good:
        WRONGS.append(": ".join([TITLES[-1], what, *filter(None, [measured, reach])]))


def wrong(text):
    print(text, flush=True)
    WRONGS.append(text)


def tell_wrongs():
    """Prints the failures again, and returns the exit code."""
    if WRONGS:
        print("\nwrong:", *WRONGS, sep="\n  ", flush=True)
    return 1 if WRONGS else 0


def median(values):
    return statistics.median(values) if values else float("nan")
