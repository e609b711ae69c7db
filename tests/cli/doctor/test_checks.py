"""The lines of a check's answer, without a terminal."""

from topicast.cli.doctor.checks import CheckResult, ok, wrong


def test_finding_goes_on_below_itself() -> None:
    found = CheckResult("ports", wrong("tcp://a:24000: Connection refused", "start one there"))
    assert found.lines(60) == [
        "wrong      ports          tcp://a:24000: Connection refused;",
        "                          start one there",
    ]


def test_finding_with_a_long_path_fits_the_terminal() -> None:
    path = "/home/ann/.local/state/topicast/keys/of-the-metastore-of-sales/driver.key"
    found = CheckResult("key file", ok(f"{path}: etl, of role driver"))
    assert found.lines(80) == [
        "ok         key file",
        f"      {path}:",
        "      etl, of role driver",
    ]
    assert max(map(len, found.lines(80))) == 80


def test_word_that_is_longer_than_a_line_is_whole() -> None:
    word = "x" * 100
    assert CheckResult("hub", ok(f"at {word}")).lines(80)[1:] == [f"  {word}"]
