import pytest

from tests import cast


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
def mailer(northgate):
    """An agent elsewhere, of northgate in staging."""
    return cast.elsewhere(northgate)
