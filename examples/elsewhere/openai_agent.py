"""An agent of the OpenAI Agents SDK whose every tool call is asked for first.

pip install "agentapprovalprotocol[openai-agents]"
python -m examples.elsewhere.openai_agent
"""

import asyncio

from agentapprovalprotocol.openai_agents import Approvals
from agents import Agent, function_tool

from examples.elsewhere import installation, models


async def main() -> None:
    approvals = Approvals(*installation.aap("openai"), timeout="1h", wait_limit=3600)
    tools = [function_tool(installation.send_mail)]
    agent = approvals.protect(Agent(name="scribe", model=models.for_openai_agents(), tools=tools))
    ended = await approvals.run(agent, "Tell Ada that the release is out.")
    print(ended.final_output)


if __name__ == "__main__":
    asyncio.run(main())
