"""Prints what TensorBoard's own reader makes of a folder of event files, as JSON: {tag: [[step, value]]}.

Runs in the environment of readers.py. A text has the plugin of its tag before it.
"""

import json
import logging
import sys

from tensorboard.backend.event_processing import event_accumulator

logging.disable(logging.WARNING)  # it tells of each START that took steps back
ALL = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}


def read(folder):
    events = event_accumulator.EventAccumulator(folder, size_guidance=ALL)
    events.Reload()
    tags = events.Tags()
    found = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in tags["scalars"]}
    for tag in tags["tensors"]:
        plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
        found[tag] = [[e.step, plugin, e.tensor_proto.string_val[0].decode()] for e in events.Tensors(tag)]
    return found


json.dump(read(sys.argv[1]), sys.stdout)
