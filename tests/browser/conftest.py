from pathlib import Path

import pytest

from tests.browser.fixtures import *  # noqa: F403
from tests.browser.fixtures import last


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    last(items, Path(__file__).parent)
