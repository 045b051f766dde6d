"""Reads a page of metrics on stdin by prometheus_client's parser of OpenMetrics, which is strict, and prints its families
as JSON: {family: [type, unit, number of samples]}. The exit code is 77 where there is no such parser."""

import json
import os
import sys

sys.dont_write_bytecode = True
import readers  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    if readers.missing() or os.environ.get("GODWIT_READERS"):
        sys.exit(77)
    os.environ["GODWIT_READERS"] = "1"
    os.execv(readers.program("python"), [readers.program("python"), __file__])

families = text_string_to_metric_families(sys.stdin.read())
json.dump({family.name: [family.type, family.unit, len(family.samples)] for family in families}, sys.stdout)
