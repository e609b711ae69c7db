"""A picture that is drawn again, where there is no terminal; ``test_top`` has a terminal."""

from topicast.cli.terminal.screen import draw_again


def test_ctrl_c_ends_it_also_while_a_picture_is_made() -> None:
    drawn: list[int] = []

    def draw() -> None:
        drawn.append(1)
        if len(drawn) == 3:
            raise KeyboardInterrupt

    draw_again(draw, every_s=0.0)
    assert len(drawn) == 3
