"""The two ways in which people use the dashboard: with a mouse, and with the keyboard alone."""

from __future__ import annotations

import re
from typing import Protocol

from playwright.sync_api import Locator, Page, expect

from tests.ui.conftest import PATIENCE

_MOST_TABS = 120


class InputDevice(Protocol):
    """Does on a page what it is told, in its own way."""

    page: Page

    def go(self, label: str, key: str) -> None:
        """Go to a page of the navigation; `key` is the one behind `g`."""

    def act(self, button: str, key: str) -> None:
        """Press a button that has a key."""

    def press(self, button: Locator) -> None:
        """Press a button that has none."""

    def write(self, field: Locator, text: str) -> None:
        """Write a text in the place of what stands in a field."""

    def choose(self, field: Locator, option: str) -> None:
        """Choose one of what a field offers."""

    def find(self, definition: str) -> None:
        """In the list of jobs: open the newest one of a definition."""


class Mouse:
    """Clicks on what it sees, and types only into fields."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def go(self, label: str, key: str) -> None:
        self.page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(f"^{label}")).click()

    def act(self, button: str, key: str) -> None:
        self.page.get_by_role("button", name=button).click()

    def press(self, button: Locator) -> None:
        button.click()

    def write(self, field: Locator, text: str) -> None:
        field.click()
        field.fill(text)

    def choose(self, field: Locator, option: str) -> None:
        field.select_option(option)

    def find(self, definition: str) -> None:
        self.write(self.page.get_by_label("Definition", exact=True), definition)
        self.page.get_by_role("button", name="Add filter").click()
        _rows(self.page, definition).first.get_by_role("link").first.click()


class Keyboard:
    """Never points at anything: it presses keys, and goes on to the next field with Tab."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def go(self, label: str, key: str) -> None:
        self._type("g", key)

    def act(self, button: str, key: str) -> None:
        expect(self.page.get_by_role("button", name=button)).to_be_visible(timeout=PATIENCE)
        self._type(key)

    def press(self, button: Locator) -> None:
        expect(button).to_be_enabled(timeout=PATIENCE)
        self._reach(button)
        self._type("Enter")

    def write(self, field: Locator, text: str) -> None:
        self._reach(field)
        self._type("Control+a")
        self.page.keyboard.type(text)

    def choose(self, field: Locator, option: str) -> None:
        self._reach(field)
        # A list of choices goes to the one that begins so.
        self.page.keyboard.type(option)

    def find(self, definition: str) -> None:
        expect(self.page.get_by_role("button", name="Add filter")).to_be_visible(timeout=PATIENCE)
        self._type("/")
        self.page.keyboard.type(definition)
        self._type("Enter")
        expect(_rows(self.page, definition).first).to_be_visible(timeout=PATIENCE)
        # Out of the field, where keys are letters.
        self._reach(self.page.get_by_role("button", name="Add filter"))
        self._type("j")
        expect(_rows(self.page, definition).first).to_be_focused(timeout=PATIENCE)
        self._type("Enter")

    def _type(self, *keys: str) -> None:
        for each in keys:
            self.page.keyboard.press(each)

    def _reach(self, wanted: Locator) -> None:
        expect(wanted).to_be_visible(timeout=PATIENCE)
        for _ in range(_MOST_TABS):
            if wanted.evaluate("element => element === document.activeElement"):
                return
            self._type("Tab")
        raise AssertionError(f"{wanted} cannot be reached with Tab")


def _rows(page: Page, definition: str) -> Locator:
    return page.get_by_role("table", name="Jobs").locator("tbody").get_by_role("row").filter(has_text=definition)
