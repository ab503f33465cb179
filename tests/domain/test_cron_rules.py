"""The guide's table of what happens where clocks jump is what the code does."""

from pathlib import Path

from docs.writers import schedule_rules

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "schedules.md"


def test_the_table_in_the_guide_is_what_the_code_does() -> None:
    block = f"<!-- generated: {schedule_rules.BLOCK} -->\n{schedule_rules.write()}\n<!-- end generated -->"

    assert block in GUIDE.read_text(encoding="utf-8"), "run `make docs`"
