"""Whole trainings by transformers' Trainer and godwit's, its examples under deaths, and what it refuses late: before a
release."""

import os
import sys

import peers
import trainings

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402


class Curve(trainings.CurveCase):
    def test_evaluations_by_epoch_smoothed_labels_and_tokens_seen(self):
        ours = self.agree("epochs", 1e-5)
        self.assertEqual(ours["saved"], ["checkpoint-11"])

    def test_the_best_model_and_the_early_end(self):
        ours = self.agree("best", 1e-3)
        self.assertLess(ours["steps"], 28, "the callback does not end the training")

    def test_the_best_model_is_another_than_the_last(self):
        ours = self.agree("early", 1e-4)
        self.assertEqual((ours["best"], ours["steps"]), (2, 4))
        self.assertEqual(ours["saved"], ["checkpoint-2"])

    def test_a_scheduler_that_follows_the_evaluation(self):
        self.agree("plateau", 1e-4)

    def test_bfloat16_and_checkpointed_activations(self):
        self.agree("bf16", 1e-2)

    def test_a_loss_that_is_a_mean_of_the_micro_batch(self):
        self.agree("means", 1e-6)


class SameBytes(trainings.ExampleCase):
    def test_a_model_of_llamas_shape(self):
        self.one_state(
            "llama.py", [self.text(), 6], "after 6 updates: .*", ["shard 1 2", "shard 3 0", "once 4"],
            ["peer shard 3 1", "shard 2 4"],
        )  # fmt: skip

    def test_adapters_on_a_frozen_base(self):
        folders = self.one_state(
            "lora.py", [self.text(), 6], r"after 6 updates: loss .*", ["shard 1 2", "once 3", "after 2", "evaluated 6"],
            ["peer shard 3 1", "shard 2 4", "once 4"],
        )  # fmt: skip
        self.same_files(folders, "adapter_model.safetensors")

    def test_a_classifier_with_its_best_model(self):
        folders = self.one_state(
            "classifier.py", [self.labels(), 3], "after 9 updates: .* are right", ["shard 1 2", "once 2", "after 3", "after 6"],
            ["peer shard 4 1", "shard 2 3", "once 5"],
        )  # fmt: skip
        self.same_files(folders, "model.safetensors")


class Refusals(peers.Case):
    def test_what_comes_too_late_in_a_loss_or_an_evaluation_is_refused(self):
        for case, words in (("log", "on_step_end"), ("labels", "have no labels")):
            self.assertIn(words, self.refusal(trainings.TRAINERS, [case]), case)

    def test_a_peer_with_other_data_is_turned_away(self):
        first = self.peer("p0", trainings.TRAINERS, ["train"], ("--peers", "2", "--workers", "1"))
        address = first.address()
        other = self.peer(
            "p1", trainings.TRAINERS, ["train"], ("--peers", "2", "--workers", "1", "--join", address), GODWIT_TEST_DIFFERS="data"
        )
        denied = peers.first_to_end([first, other])  # chance decides which, as none of the two jobs has begun
        self.assertNotEqual(denied.end(), 0, denied.output)
        self.assertIn("data:train", denied.output)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "transformers", "accelerate", "peft", "numpy"), what="programs")
