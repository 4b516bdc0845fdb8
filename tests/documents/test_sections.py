"""Documents are split at their headings, and long sections at the ends of lines."""

from __future__ import annotations

from patchbay.documents.sections import MAX_SECTION_CHARACTERS, MAX_SECTIONS, sections


def test_each_section_has_its_heading_and_the_titles_above_it() -> None:
    found = sections("Guide", "Intro.\n\n# Install\n\nRun `pip`.\n\n## On Linux\n\nUse it.\n\n# Use\n\nGo.\n")
    assert [one.heading.title if one.heading else "" for one in found] == ["", "Install", "On Linux", "Use"]
    assert "Install > On Linux" in found[2].text and found[2].text.startswith("Guide\n")
    assert "Install" not in found[3].text
    assert "`" not in found[1].text


def test_a_long_section_has_several_parts_with_one_heading_and_an_empty_document_has_one() -> None:
    body = "# Long\n" + "a line of words\n" * 400
    found = sections("T", body)
    assert len(found) > 1 and {one.heading.title for one in found if one.heading} == {"Long"}
    assert all(len(one.text) <= MAX_SECTION_CHARACTERS + 20 for one in found)
    assert sum(one.text.count("a line of words") for one in found) == 400
    assert len(sections("T", "x" * MAX_SECTION_CHARACTERS * (MAX_SECTIONS + 5))) == MAX_SECTIONS
    assert [one.text for one in sections("Only a title", " \n")] == ["Only a title"]
