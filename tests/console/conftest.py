import pytest

from tests import cast
from tests.console import stage


@pytest.fixture(autouse=True)
def data(settings, tmp_path):
    """Files that people attach go where this test's end takes them along."""
    settings.SAYSO_DATA = tmp_path


@pytest.fixture
def houses(transactional_db):
    return cast.assemble()


@pytest.fixture
def northgate(houses):
    return houses[0]


@pytest.fixture
def harbour(houses):
    return houses[1]


@pytest.fixture
def everything(northgate):
    """One of each thing a page can be about, in northgate."""
    return stage.everything(northgate)
