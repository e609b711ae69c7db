"""Lines of a spark-sql, as it prints them where its input is no terminal."""

from topicast.cli.quickstart.sql_shell import SqlShell, question

END = "-- answered --"


def taken(shell: SqlShell, *lines: str, error: bool = False) -> list[str]:
    return [shell.take(line, error=error) for line in lines]


def test_question_is_followed_by_what_prints_the_line_behind_its_answer() -> None:
    assert question("SELECT 7") == "SELECT 7;\nSELECT concat('-- answered ', '--');"


def test_first_row_is_the_answer_and_what_was_typed_is_none() -> None:
    typed, *_ = question("SELECT 7").splitlines()
    shell = SqlShell()
    assert taken(shell, f"spark-sql (default)> {typed}", typed, "7", "8", END)[-1] == "7"
    assert taken(shell, "9", END) == ["", "9"], "nothing is left of the answer before"


def test_error_is_the_answer_and_may_come_behind_the_line_after_it() -> None:
    shell = SqlShell()
    lines = ("WARN ObjectStore: [x]", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column")
    assert taken(shell, *lines, error=True) == ["", ""]
    assert taken(shell, END) == ["UNRESOLVED_COLUMN.WITH_SUGGESTION"]
    assert taken(shell, END) == [""]
    found = taken(shell, "Error in query: [FAILED_READ_FILE.FILE_NOT_EXIST] Gone", error=True)
    assert found == ["FAILED_READ_FILE.FILE_NOT_EXIST"]
