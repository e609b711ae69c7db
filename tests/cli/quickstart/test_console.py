from topicast.cli.quickstart.console import (
    BEFORE,
    WIDTH_MAX,
    WIDTH_MIN,
    Seen,
    commands,
    read_ready,
    shortened,
    summary,
)


def test_ready_line_is_read_as_addresses() -> None:
    line = "ready address=tcp://127.0.0.1:1 web=http://127.0.0.1:2"
    assert read_ready(line) == {"address": "tcp://127.0.0.1:1", "web": "http://127.0.0.1:2"}


def test_summary_is_a_table_of_times_and_a_sentence() -> None:
    seen = [
        Seen(title="create a database", saw="shop", after_s=0.25),
        Seen(title="add a column", saw="shop.orders", after_s=0.05),
        Seen(title="drop the view", saw="gone", after_s=0.1),
    ]
    assert summary(seen) == [
        "what the writer did  seen after its call returned",
        "create a database    0.250 s",
        "add a column         0.050 s",
        "drop the view        0.100 s",
        "",
        "3 changes made in one Spark driver were seen in another one:",
        "half of them within 0.10 s, all within 0.25 s.",
    ]


def test_long_text_is_cut_and_says_so() -> None:
    assert shortened("a" * WIDTH_MAX) == "a" * WIDTH_MAX
    assert shortened("a" * (WIDTH_MAX + 1)) == "a" * (WIDTH_MAX - 1) + "…"


def test_text_is_cut_to_a_narrow_terminal_but_not_to_nothing() -> None:
    assert len(shortened("a" * 96, columns=80)) == 80 - BEFORE
    assert len(shortened("a" * 96, columns=10)) == WIDTH_MIN


def test_commands_name_the_statestored_only_where_nobody_would_look() -> None:
    """But an application always gets an explicit address: it has no usual place."""
    hub = "tcp://127.0.0.1:24000"
    usual = commands(hub, metastore_uri="thrift://h:1", usual=True)
    assert [line for line in usual if hub in line] == [line for line in usual if " run " in line]
    other = commands(hub, metastore_uri="thrift://h:1", usual=False)
    assert all(hub in line for line in other if "topicast" in line.split()[0])
