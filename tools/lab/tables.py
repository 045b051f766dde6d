"""How the measurements are shown: rows of what was measured, and what it should reach."""

import statistics


def table(title):
    print(f"\n== {title}", flush=True)


def row(what, measured, reach=""):
    print(f"{what:<44} {measured:>20}  {reach}", flush=True)


def median(values):
    return statistics.median(values) if values else float("nan")
