"""Every row of `requirements.md` has its tests, by name; a test that goes away takes its row with it, loudly."""

import re
from pathlib import Path
from typing import get_args

from honeybadger_agent.wire import REQUEST_TYPES, ErrorCode
from tests.house.test_guarantees import TESTS, problems, promises

PAGE = Path(__file__).with_name("requirements.md").read_text()


def rows_of(heading: str) -> list[str]:
    """Return the first cells of the table below a heading."""
    return [row for row, _ in promises(PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0])]


def test_every_requirement_has_its_tests() -> None:
    assert problems(PAGE) == []


def test_no_row_of_this_issue_is_left_out() -> None:
    rows = {"HB": range(1, 11), "AM": range(1, 8), "AB": (1, 2, 3, 4, 5, 6, 8), "RB": range(1, 15), "CM": range(1, 8)}
    asked = {f"{seed}{number}" for seed, numbers in rows.items() for number in numbers}
    assert {row.split()[0] for row in rows_of("What was asked for")} == asked


def test_every_code_of_the_protocol_is_given() -> None:
    assert sorted(rows_of("Error codes of the protocol")) == sorted(get_args(ErrorCode))


def test_the_seeds_test_plan_is_there_by_name() -> None:
    assert rows_of("Test plan of the seeds") == [str(number) for number in range(1, 7)]


def test_every_request_type_is_in_a_test() -> None:
    files = [*(TESTS / "host" / "handlers").glob("test_*.py"), *(TESTS / "flows").glob("*.py")]
    source = "".join(path.read_text() for path in files)
    assert [name for name in REQUEST_TYPES if not re.search(rf'"{name}"|\.{name}\(', source)] == []
