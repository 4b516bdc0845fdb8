"""The fields of all forms are macros of `macros.html`: a label, the control, a hint and a problem, always alike."""

from __future__ import annotations

import re

import pytest

from patchbay.assets import TEMPLATES
from patchbay.web.rendering.templates import page_environment

OWN_FIELDS = {
    "macros.html": "it has the macros",
    "base.html": "the search in the header has no visible label",
    "past_macros.html": "a row of a table has two radio buttons in cells",
    "settings_macros.html": "a script replaces the text of a document while its label and its hint stay",
}
_CONTROL = re.compile(r"<(?:label|select|textarea)\b|<input\b(?![^>]*type=\"hidden\")")


@pytest.mark.parametrize(
    "name", sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html")), ids=str
)
def test_a_template_makes_no_form_field_of_its_own(name: str) -> None:
    """Issue 53, item 8."""
    if name in OWN_FIELDS:
        return
    assert _CONTROL.findall((TEMPLATES / name).read_text()) == []


def rendered(call: str) -> str:
    """What a call of a macro writes."""
    names = "area, choice, input, reason, select"
    template = page_environment("").from_string(f'{{% from "macros.html" import {names} %}}{{{{ {call} }}}}')
    return template.render()


def test_a_field_has_its_label_its_hint_and_the_attributes_of_its_control() -> None:
    found = rendered('input("token", "Token", hint="Once.", id="t", type="password", required=true, readonly=false)')
    assert found == (
        '<div class="field"><label for="t">Token</label>\n'
        '<input name="token" value="" id="t" aria-describedby="t-hint" type="password" required>'
        '<p class="hint" id="t-hint">Once.</p></div>'
    )


def test_a_wrong_field_is_described_by_its_problem_and_its_hint() -> None:
    found = rendered('input("age", "Age", "x", hint="Years.", problem="expected a number")')
    assert 'aria-invalid="true" aria-describedby="age-problem age-hint"' in found
    assert '<p class="problem" id="age-problem">expected a number</p>' in found
    assert 'aria-invalid="true">' in rendered('input("name", "Name", is_wrong=true)')


def test_values_of_fields_are_text() -> None:
    fields = (
        'input("a", "A", "\\"><b>")',
        'area("a", "A", "</textarea><b>")',
        'choice("a", "<b>", value="\\"><b>")',
    )
    for call in fields:
        assert "<b>" not in rendered(call), call
    assert "<b>" not in rendered('select("a", "A", ["<b>", ("\\"><b>", "<b>")], all="none")')


def test_a_list_marks_its_value_and_a_box_its_tick() -> None:
    found = rendered('select("kind", "Kind", ["tool", ("all", "everything")], "all", all="none")')
    assert '<option value="">none</option><option value="tool">tool</option>' in found
    assert '<option value="all" selected>everything</option>' in found
    assert " checked>" in rendered('choice("a", "A", true)') and "checked" not in rendered('choice("a", "A")')
