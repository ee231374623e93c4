"""Random stories against the plain model: ten here, two thousand in `./run chaos stateful`."""

import os

from hypothesis.stateful import run_state_machine_as_test

from tests.chaos import stories
from tests.runtime.conftest import houses, northgate  # noqa: F401


def test_whatever_happens_the_tables_say_what_the_rules_say(northgate, owner, clock):  # noqa: F811
    """R04, R05, R08, R16, R22-R25, R28, R30, R32-R34 in any order."""
    northgate.join("Olly", "operator")
    northgate.join("Otto", "operator")
    stories.Stories.house, stories.Stories.owner, stories.Stories.clock = northgate, owner, clock
    examples = int(os.environ.get("SAYSO_STORIES", "10"))
    shrink = os.environ.get("SAYSO_STORIES_SHRINK", "yes") == "yes"
    run_state_machine_as_test(stories.Stories, settings=stories.settings_of(examples, shrink=shrink))
