"""The counters of a run: what counts since the newest version, and checkpoints of earlier releases."""

from ludus.orchestrator.progress import Progress, UpdateReport


def test_updates_are_counted_until_a_version_is_made_of_them() -> None:
    progress = Progress()
    for _ in range(3):
        progress.count(UpdateReport(steps=10, episodes=2))
    progress.count(UpdateReport(steps=0, episodes=2, is_learnt=False))
    assert (progress.update, progress.unpublished, progress.published_steps) == (4, 3, 0)
    progress.publish(1)
    assert (progress.version, progress.unpublished, progress.published_steps) == (1, 0, 30)
    again = Progress()
    again.load_state(progress.state())
    assert again == progress


def test_in_a_checkpoint_of_an_earlier_release_every_update_was_published() -> None:
    progress = Progress()
    progress.load_state({"update": 7, "steps": 70, "episodes": 14, "version": 7, "next_task": 14, "finished": False})
    assert (progress.unpublished, progress.published_steps) == (0, 70)
