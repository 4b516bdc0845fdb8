"""A person who uses a page with the keyboard alone: step to a control, press it, write into it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

MAX_STEPS = 150
"""Presses of the Tab key that lead to everything on a page."""

FOCUS = """each => each === document.activeElement && each.matches(':focus-visible')
  && [each, each.parentElement].some((one) => getComputedStyle(one).outlineStyle !== 'none')"""
"""An element has the focus, and an outline of the element or of its frame shows it."""


def step_to(page: Page, wanted: Locator) -> None:
    """Press the Tab key until an element has the focus. Raises AssertionError if it gets no visible focus."""
    for _ in range(MAX_STEPS):
        page.keyboard.press("Tab")
        if wanted.evaluate(FOCUS):
            return
    raise AssertionError(f"{MAX_STEPS} presses of the Tab key give no visible focus to {wanted}")


def focus(page: Page, wanted: Locator) -> None:
    """Bring the focus to a control of a page that is not the hub's; it may begin with the focus there."""
    for _ in range(MAX_STEPS):
        if wanted.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{MAX_STEPS} presses of the Tab key do not lead to {wanted}")


def press(page: Page, name: str, role: str = "button") -> None:
    """Go to a button, or a link with `role`, and press Enter."""
    step_to(page, page.get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]
    page.keyboard.press("Enter")


def write(page: Page, label: str, text: str) -> None:
    """Go to a field and write into it."""
    step_to(page, page.get_by_label(label).first)
    page.keyboard.type(text)
