"""Tests marked `isolated` run in a pytest process of their own: a crash there is reported here.

All parameters of a test function share one child, and all tests of a file that are marked
``isolated(together="file")``. Where that is killed, the rest run one by one, and the first of them
fails: what kills several together may spare each by itself. With ``whole=True`` all processes that
a child started end with it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import children
import pytest

REPORT = "CANDLE_TEST_REPORT"

# Which is with failed tests too.
_ENDED_WELL = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)

_outcomes: dict[str, dict[str, str]] = {}
_tried: set[str] = set()


def is_child() -> bool:
    """Whether this is such a process."""
    return REPORT in os.environ


def write_report(report: pytest.TestReport) -> None:
    """In the child: add a test's outcome to the file that the parent reads."""
    if report.when != "call" and not (report.failed or report.skipped):
        return
    line = {"test": report.nodeid, "outcome": report.outcome, "text": report.longreprtext}
    with Path(os.environ[REPORT]).open("a") as file:
        print(json.dumps(line), file=file)


def _run(item: pytest.Function, test: str) -> children.Child:
    marker = item.get_closest_marker("isolated")
    whole = marker is not None and marker.kwargs.get("whole", False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report")
        child = children.run_child(
            *("-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", str(item.config.inipath), "--rootdir", str(item.config.rootpath)),
            f"{item.config.rootpath}/{test}",
            whole=whole,
            **{REPORT: str(path)},
        )
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            if _outcomes.get(entry["test"], {}).get("outcome") != "failed":
                _outcomes[entry["test"]] = entry
    return child


def _ending(child: children.Child) -> str:
    ending = child.signal or f"exit status {child.returncode}"
    return f"killed: {ending}\n{child.stdout}\n{child.stderr}"


def run_in_child(item: pytest.Function) -> None:
    """In the parent: end a test as it ended in the child."""
    marker = item.get_closest_marker("isolated")
    whole_file = marker is not None and marker.kwargs.get("together") == "file"
    together = item.nodeid.partition("::" if whole_file else "[")[0]
    if together not in _tried:
        _tried.add(together)
        child = _run(item, together)
        if child.returncode not in _ENDED_WELL:
            pytest.fail(f"all of {together} together: {_ending(child)}", pytrace=False)
    if item.nodeid not in _outcomes:
        child = _run(item, item.nodeid)
        if item.nodeid not in _outcomes:
            pytest.fail(_ending(child), pytrace=False)
    entry = _outcomes[item.nodeid]
    if entry["outcome"] == "skipped":
        pytest.skip(entry["text"])
    if entry["outcome"] == "failed":
        pytest.fail(entry["text"], pytrace=False)
