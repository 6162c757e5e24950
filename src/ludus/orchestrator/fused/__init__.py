"""A learner that is its own source: rollouts and training as one compiled program."""
