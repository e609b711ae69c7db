from topicast.cli.pages.parts.figure import HEIGHT, LEAST, WIDTH, Bars


def bars(*values: float) -> str:
    labels = [f"<{value}>" for value in values]
    found = Bars(about="Of <each>.", values=values, labels=labels, first="then", last="<now>")
    return found.html("/x", {})


def test_highest_bar_is_as_high_as_the_figure_and_a_small_bar_is_seen() -> None:
    html = bars(1000.0, 0.0, 1.0)
    assert html.count("<rect ") == 2
    assert f'x="0.0" y="0.0" width="{WIDTH / 3 - 1:.1f}" height="{HEIGHT:.1f}"' in html
    assert f'height="{LEAST}"' in html


def test_texts_are_escaped_and_nothing_is_a_style_that_the_policy_refuses() -> None:
    html = bars(1.0)
    assert "<title>&lt;1.0&gt;</title>" in html
    assert "Of &lt;each&gt;." in html
    assert "<span>&lt;now&gt;</span>" in html
    assert "style=" not in html


def test_figure_without_values_is_empty() -> None:
    assert "<rect " not in bars()
    assert "<rect " not in bars(0.0, 0.0)
