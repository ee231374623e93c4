"""A Pydantic AI agent whose every tool call is asked for first, by the public client of the Agent Approval Protocol.

pip install "agentapprovalprotocol[pydantic-ai]"
python -m examples.elsewhere.pydantic_agent
"""

from agentapprovalprotocol.pydantic_ai import ApprovalCapability
from pydantic_ai import Agent

from examples.elsewhere import installation, models


def main() -> None:
    agent = Agent(
        models.for_pydantic_ai(),
        capabilities=[ApprovalCapability(*installation.aap("pydantic"), timeout="1h", wait_limit=3600)],
    )
    agent.tool_plain(installation.send_mail)
    print(agent.run_sync("Tell Ada that the release is out.").output)


if __name__ == "__main__":
    main()
