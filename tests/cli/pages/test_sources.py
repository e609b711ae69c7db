from topicast.cli.pages.sources import STUCK_S, trouble


def test_daemon_that_turns_reports_its_own_problem() -> None:
    assert trouble("", silent_s=STUCK_S) == ""
    assert trouble("no catalogd has announced itself", silent_s=0.0).startswith("no catalogd")


def test_loop_that_hangs_is_reported_before_its_last_problem() -> None:
    printed = trouble("no catalogd has announced itself", silent_s=STUCK_S + 2)
    assert "hangs: its last turn began 12 s ago" in printed
    assert "restart" in printed
    assert "no catalogd" not in printed
