"""Where every test must run, as in continuous integration, one that skips fails: `--no-skips`."""

from __future__ import annotations

from collections.abc import Generator

import pytest

Wrapped = Generator[None, pytest.TestReport, pytest.TestReport]
Collected = Generator[None, pytest.CollectReport, pytest.CollectReport]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a test that skips fails")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Wrapped:
    report = yield
    if item.config.getoption("--no-skips") and not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Collected:
    report = yield
    if collector.config.getoption("--no-skips"):
        _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: every test must run here, and this one did not: {reason}"
