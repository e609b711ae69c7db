from dataclasses import fields, replace

from topicast.subscriber.spark.driver.handle import Handle
from topicast.subscriber.spark.status import AttachStatus


def test_status_is_a_table_in_a_notebook() -> None:
    status = replace(
        Handle().status(),
        last_error="<script>",
        staleness_s=0.12345,
        state="plain",
        reason="no <key>",
    )
    shown = status._repr_html_()
    assert "<b>plain: no &lt;key&gt;</b>" in shown, "what matters first"
    facts = {one.name: getattr(status, one.name) for one in fields(AttachStatus)[2:]}
    filled = [name for name, value in facts.items() if value not in ("", None, 0)]
    assert shown.count("<tr>") == len(filled) + 1, "counts that are 0 share a line"
    zeros = [name.replace("_", " ") for name, value in facts.items() if value == 0]
    assert "stale reads avoided" in zeros
    assert f">{', '.join(zeros)}</td>" in shown
    assert "0.123" in shown
    assert "&lt;script&gt;" in shown
