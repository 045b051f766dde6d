"""What became of the steps that were committed under chaos (tools/chaos/course.py): which were lost, and what explains
it.
"""

import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import tap  # noqa: E402
from course import Course  # noqa: E402

ALL, LEFT, RIGHT = "1 2", "1", "2"


class StepsThatAreLost(unittest.TestCase):
    """Judges events of two peers that are made by hand."""

    def setUp(self):
        self.strikes = []
        self.course = Course(self.strikes)
        self.now = 100

    def view(self, name):
        for peer in name.split():
            self.now += 0.1
            self.course.take(int(peer), {"event": "view", "name": name, "members": name.split(), "time": self.now})

    def steps(self, peers, *steps):
        for step in steps:
            for peer in peers:
                self.now += 1
                self.course.take(peer, {"event": "step", "step": step, "time": self.now})

    def checkpoint(self, step, peer=1):
        self.now += 1
        self.course.take(peer, {"event": "checkpoint", "step": step, "time": self.now})

    def struck(self, **fault):
        fault = types.SimpleNamespace(**{"parts": False, "spoils": None, "silences": None, **fault})
        self.strikes.append(types.SimpleNamespace(fault=fault, began=self.now, ended=self.now + 1))

    def power_loss(self, resumed, **fault):
        """All peers lose power at step 9, with a complete checkpoint of step 5."""
        self.view(ALL)
        self.steps((1, 2), 3, 4, 5)
        self.checkpoint(5)
        self.steps((1, 2), 6, 7, 8, 9)
        self.struck(**fault)
        self.course.power_lost(self.now)
        self.view(ALL)
        self.steps((1, 2), *range(resumed + 1, 11))

    def test_a_kill_loses_none_though_who_lives_is_a_step_behind(self):
        self.view(ALL)
        self.steps((1, 2), 7, 8)
        self.steps((1,), 9)
        self.course.ended(1)
        self.view(RIGHT)
        self.steps((2,), 9, 10)
        self.assertEqual((self.course.lost_in_power_losses() + self.course.lost_in_cuts, self.course.wrongs), (0, []))

    def test_a_kill_that_throws_steps_away_is_told(self):
        self.view(ALL)
        self.steps((1, 2), 7, 8, 9)
        self.course.ended(1)
        self.steps((2,), 5)
        self.assertIn("peer 2 went back from step 9 to 5", self.course.wrongs[0])

    def test_steps_that_nobody_living_has_though_he_was_there_are_told(self):
        self.view(ALL)
        self.steps((2,), 3)
        self.steps((1,), 3, 4, 5, 6, 7, 8)
        self.course.ended(1)
        self.steps((2,), 4)
        self.assertEqual(self.course.wrongs, ["5 steps up to 8 were lost, and no fault explains it"])

    def test_steps_of_one_side_of_a_cut_end_with_it(self):
        self.view(ALL)
        self.steps((1, 2), 3)
        self.struck(parts=True)
        self.view(LEFT)
        self.view(RIGHT)
        self.steps((1,), 4, 5, 6, 7, 8, 9)
        self.course.ended(1)
        self.steps((2,), 4, 5)
        self.assertEqual((self.course.lost_in_cuts, self.course.wrongs), (6, []))

    def all_end(self):
        """The peers end one after another at step 50, with a complete checkpoint of step 49; the first one is back at once."""
        self.view(ALL)
        self.steps((1, 2), 49)
        self.checkpoint(49)
        self.steps((1, 2), 50)
        self.course.ended(1)
        self.view(RIGHT)
        self.course.ended(2)

    def lost(self):
        return self.course.lost_in_cuts, self.course.lost_with_all

    def test_when_all_have_ended_one_after_another_the_checkpoint_is_gone_on_from(self):
        self.all_end()
        self.view(LEFT)
        self.steps((1,), 1)
        told = "when all peers with step 50 had ended, the job continued from step 0, behind the complete"
        told += " checkpoint of step 49"
        self.assertEqual(self.course.wrongs, [told])
        self.setUp()
        self.all_end()
        self.view(LEFT)
        self.steps((1,), 50, 51)
        self.assertEqual((self.lost(), self.course.wrongs), ((0, 0), []))

    def test_what_came_since_the_checkpoint_is_lost_with_all(self):
        self.view(ALL)
        self.steps((1, 2), 40)
        self.checkpoint(40)
        self.steps((1, 2), *range(41, 51))
        self.course.ended(1)
        self.course.ended(2)
        self.view(LEFT)
        self.steps((1,), 41)
        self.assertEqual((self.lost(), self.course.wrongs), ((0, 10), []))

    def test_a_cut_that_was_over_before_they_last_met_is_no_excuse_and_a_later_one_is(self):
        self.struck(parts=True)
        self.now += 10
        self.all_end()
        self.view(LEFT)
        self.steps((1,), 1)
        self.assertEqual((self.lost(), len(self.course.wrongs)), ((0, 50), 1))
        self.setUp()
        self.all_end()
        self.view(LEFT)
        self.struck(parts=True)
        self.steps((1,), 1)
        self.assertEqual((self.lost(), self.course.wrongs), ((50, 0), []))

    def test_the_life_before_met_others_and_not_this_one(self):
        self.view(ALL)
        self.steps((1, 2), 3)
        self.course.ended(1)
        self.view(LEFT)  # again, and is cut off
        self.struck(parts=True)
        self.now += 10
        self.view(RIGHT)
        self.steps((2,), 4, 5, 6, 7, 8)
        self.course.ended(2)
        self.view(ALL)  # with a new life of the second one
        self.steps((1, 2), 4)
        self.assertEqual((self.lost(), self.course.wrongs), ((5, 0), []))

    def one_saves_alone(self, waits_s):
        """The checkpoint of step 9, while the first one is dead, or has come back and not been seen for a while."""
        self.view(ALL)
        self.steps((1, 2), 5)
        self.course.ended(1)
        self.view(RIGHT)
        self.steps((2,), 6, 7, 8, 9)
        self.checkpoint(9, peer=2)
        self.course.ended(2)
        self.course.take(2, {"event": "start", "time": self.now})
        self.now += waits_s
        self.view(LEFT)
        self.steps((1,), 6)

    def test_who_has_the_checkpoint_and_has_just_begun_is_not_waited_for(self):
        self.one_saves_alone(waits_s=1)
        self.assertEqual((self.lost(), self.course.wrongs), ((0, 4), []))

    def test_who_has_the_checkpoint_and_has_long_been_there_is_asked(self):
        self.one_saves_alone(waits_s=60)
        self.assertEqual(len(self.course.wrongs), 1)

    def test_disks_that_failed_count_as_not_there(self):
        self.all_end()
        self.struck(spoils=1)
        self.view(LEFT)
        self.steps((1,), 1)
        self.assertEqual((self.lost(), self.course.wrongs), ((0, 50), []))

    def three_save(self, *silent, before=False):
        """The checkpoint of step 9, which two of them have; all come back, and the first one goes on without them."""
        self.view("2 3 4")
        self.steps((2, 3, 4), *range(1, 10))
        if before:
            self.struck_silent(silent)
        self.checkpoint(9, peer=2)
        self.now += 60
        for peer in (2, 3, 4):
            self.course.ended(peer)
            self.course.take(peer, {"event": "start", "time": self.now})
        self.now += 60
        if not before:
            self.struck_silent(silent)
        self.view(LEFT)
        self.steps((1,), 1)

    def struck_silent(self, silent):
        for peer in silent:
            self.struck(silences=peer)

    def test_who_was_silent_counts_as_not_there(self):
        for silent, wrongs in (((), 1), ((2,), 1), ((2, 3), 0)):
            self.setUp()
            self.three_save(*silent)
            self.assertEqual((self.lost(), len(self.course.wrongs)), ((0, 9), wrongs), silent)

    def test_to_whom_was_silent_himself_nobody_was_there(self):
        self.three_save(1)
        self.assertEqual((self.lost(), self.course.wrongs), ((0, 9), []))

    def test_who_was_silent_when_it_was_saved_may_not_have_it(self):
        for silent, wrongs in (((2,), 1), ((2, 3), 0)):
            self.setUp()
            self.three_save(*silent, before=True)
            self.assertEqual((self.lost(), len(self.course.wrongs)), ((0, 9), wrongs), silent)

    def test_a_power_loss_takes_what_came_since_the_newest_checkpoint(self):
        self.power_loss(resumed=5)
        self.assertEqual((self.course.lost_in_power_losses(), self.course.wrongs), (4, []))
        self.assertTrue(self.course.power_losses[0].judged)
        self.assertEqual(self.course.newest, 10)

    def test_steps_that_one_does_alone_from_the_start_are_all_that_it_does_again(self):
        self.power_loss(resumed=5)
        self.struck(spoils=1)
        self.struck(spoils=2)
        self.course.power_lost(self.now)
        self.view(LEFT)
        self.steps((1,), 1, 2)
        self.course.ended(1)
        self.view(RIGHT)
        self.steps((2,), 10, 11)
        self.assertEqual((self.course.lost_in_power_losses(), self.course.wrongs), (4 + 3, []))

    def test_a_power_loss_that_goes_back_behind_a_complete_checkpoint_is_told(self):
        self.power_loss(resumed=0)
        self.assertIn("continued from step 0, behind the complete checkpoint of step 5", self.course.wrongs[0])

    def test_one_disk_that_fails_is_no_excuse(self):
        self.power_loss(resumed=4, spoils=1)
        self.assertEqual(len(self.course.wrongs), 1)

    def test_a_second_disk_that_fails_or_a_cut_is_one(self):
        for fault in ({"parts": True}, {"spoils": 2}):
            self.setUp()
            self.struck(spoils=1)
            self.power_loss(resumed=4, **fault)
            self.assertEqual((self.course.lost_in_power_losses(), self.course.wrongs), (5, []), fault)
            self.assertFalse(self.course.power_losses[0].judged)

    def test_before_the_first_checkpoint_a_power_loss_takes_all(self):
        self.view(ALL)
        self.steps((1, 2), 1, 2)
        self.course.power_lost(self.now)
        self.steps((1, 2), 1, 2)
        self.assertEqual((self.course.lost_in_power_losses(), self.course.wrongs), (2, []))


if __name__ == "__main__":
    tap.main(lambda: None)
