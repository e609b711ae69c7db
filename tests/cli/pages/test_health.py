from topicast.cli.pages.health import STUCK_S, trouble


def test_daemon_that_turns_tells_its_own_problem() -> None:
    assert trouble("", silent_s=STUCK_S) == ""
    assert trouble("no catalogd has announced itself", silent_s=0.0).startswith("no catalogd")


def test_loop_that_hangs_is_told_before_what_it_said_last() -> None:
    said = trouble("no catalogd has announced itself", silent_s=STUCK_S + 2)
    assert "hangs: its last turn began 12 s ago" in said
    assert "restart" in said
    assert "no catalogd" not in said
