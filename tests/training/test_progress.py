import io

import pytest

from transformula.training.progress import Progress


def test_plain_lines_where_there_is_no_terminal(monkeypatch) -> None:
    stream = io.StringIO()
    with Progress("tokens", stream) as shown:
        shown.say("begin")
        shown.step(1, 0.01, 2.0, 1000.0, 0.5, 60.0, 1e-3, {})  # too soon
        shown._shown -= 1000
        shown.step(2, 0.02, 2.0, 1000.0, 0.5, 60.0, 1e-3, {})
        shown.busy("evaluating")
    rows = stream.getvalue().splitlines()
    assert rows == ["begin", "step 2  2 %  loss 2.000  1,000 tokens/s  50 % of peak  lr 0.001  1 min 0 s left"]
    assert "\x1b" not in stream.getvalue()


def test_a_line_that_renews_itself_in_a_terminal() -> None:
    stream = io.StringIO()
    with Progress("tokens", stream, live=True) as shown:
        shown.step(1, 0.01, 2.0, 1000.0, 0.5, None, 1e-3, {})
        shown.say("[stays] as it is")
        shown._live.refresh()
    assert "[stays] as it is" in stream.getvalue() and "loss 2.000" in stream.getvalue()


def test_quiet_says_warnings_only() -> None:
    stream = io.StringIO()
    with Progress("tokens", stream, quiet=True, live=True) as shown:
        shown.say("no")
        shown.step(1, 0.01, 2.0, 1000.0, 0.5, None, 1e-3, {})
        shown.say("damaged", warning=True)
    assert stream.getvalue() == "damaged\n"


@pytest.mark.parametrize(("kind", "live"), [("xterm", True), ("dumb", False)])
def test_a_terminal_without_a_cursor_gets_plain_lines(kind: str, live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", kind)
    with Progress("tokens", stream) as shown:
        shown.say("begin")
        shown._shown -= 1000
        shown.step(1, 0.01, 2.0, 1000.0, 0.5, None, 1e-3, {})
    assert ("\x1b" in stream.getvalue()) == live and "begin" in stream.getvalue()
    assert live or stream.getvalue().splitlines()[1].startswith("step 1")
