from __future__ import annotations

import pytest

from prx_resources.untrusted import harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A dog & a cat", "A dog &amp; a cat"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("two\nlines\tand  spaces", "two lines and spaces"),
        ("\x1b[31mred\x07", "\\u001b[31mred\\u0007"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("lone \ud800", "lone \\ud800"),
        ("Zürich 写真 🙂", "Zürich 写真 🙂"),
    ],
)
def test_text_is_shown_without_power(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_long_text_is_cut() -> None:
    assert harmless("word " * 50, 12) == "word word w…"
