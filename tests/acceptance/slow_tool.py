"""A Pydantic AI agent whose tool says that it has begun, and then takes for ever.  URL TOKEN"""

import os
import sys
import time

from agentapprovalprotocol.pydantic_ai import ApprovalCapability
from pydantic_ai import Agent

from examples.elsewhere import models

agent = Agent(models.for_pydantic_ai(), capabilities=[ApprovalCapability(*sys.argv[1:3], timeout="10m")])


@agent.tool_plain
def send_mail(to: str, subject: str) -> str:
    with open(os.environ["OUTBOX"], "a") as outbox:
        outbox.write("begun\n")
    time.sleep(600)
    return "sent"


print(agent.run_sync("Tell Ada.", conversation_id="c-1").output)
