"""Runs a script of arrays (an example) that its first argument names, and dies in it where it is told to."""

import runpy
import sys

import deaths
from godwit import arrays

sys.argv[:] = sys.argv[1:]
_shard, _update = arrays.Job.shard, arrays.Job.update


def shard(job, function):
    def dying(s, state):
        deaths.at("shard", s.update, s.shard)
        return function(s, state)

    return _shard(job, dying)


def update(job, function):
    def dying(u, state, totals):
        deaths.at("once", u.update)
        return function(u, state, totals)

    return _update(job, dying)


arrays.Job.shard, arrays.Job.update = shard, update
runpy.run_path(sys.argv[0], run_name="__main__")
