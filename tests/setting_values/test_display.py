"""Values of settings are shown without what proves something."""

from __future__ import annotations

import pytest

from patchbay.setting_values.display import HIDDEN, display_value
from patchbay.settings import Settings

ROWS = {row.name: row for row in Settings.rows()}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("port", 8000, "8000"),
        ("timeout", 30.0, "30"),
        ("allowed_hosts", ("localhost", "127.0.0.1"), "localhost,127.0.0.1"),
        ("introspection_secret", "", ""),
        ("introspection_secret", "${INTROSPECTION_SECRET}", "${INTROSPECTION_SECRET}"),
        ("introspection_secret", "hunter2", HIDDEN),
        ("introspection_secret", "${A}hunter2", HIDDEN),
        ("store", "postgresql://hub@db/patchbay", "postgresql://hub@db/patchbay"),
        ("store", "postgresql://hub:hunter2@db/patchbay", "postgresql://…@db/patchbay"),
        (
            "store",
            "postgresql://hub@db/patchbay?sslpassword=hunter2&x=1",
            "postgresql://hub@db/patchbay?sslpassword=…&x=1",
        ),
        ("bus_address", "redis://:hun/ter@2@cache:6379/0", "redis://…@cache:6379/0"),
        ("pypi", "https://hunter2@index.example/simple", "https://…@index.example/simple"),
        ("registry", "https://index.example/?api_key=hunter2", "https://index.example/?api_key=…"),
        (
            "allowed_origins",
            ("https://a.example", "https://u:hunter2@b.example"),
            "https://a.example,https://…@b.example",
        ),
    ],
)
def test_a_value_is_shown_without_secrets(name: str, value: object, shown: str) -> None:
    assert display_value(ROWS[name], value) == shown


def test_the_default_of_each_setting_can_be_shown() -> None:
    assert all(
        display_value(row, row.default) == ",".join(row.default)
        for row in ROWS.values()
        if isinstance(row.default, tuple)
    )
    assert HIDDEN not in {display_value(row, row.default) for row in ROWS.values()}
