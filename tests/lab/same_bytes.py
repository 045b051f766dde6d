"""What every flock must come to, whatever was done to it."""

from flock import run_alone


def stop_and_compare(test, flock, job, seconds):
    """Stops the job: its living peers end, with the state of one undisturbed peer that did as many steps. Returns how
    many that were."""
    finishers = flock.living()
    home = finishers[0].home
    home.machine.check(f"{flock.binary} stop --dir {home.inside(finishers[0].directory)}")
    flock.wait_ends(finishers, seconds)
    steps = finishers[0].done["steps"]
    alone = run_alone(flock.binary, [*job, "--steps", str(steps)])
    test.assertEqual({peer.done["state"] for peer in finishers}, {alone["state"]})
    return steps
