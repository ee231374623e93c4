"""A LangGraph agent that may exit while it waits: the webhook wakes its thread, in whichever process listens by then.

pip install "agentapprovalprotocol[langgraph]" langgraph-checkpoint-sqlite uvicorn
python -m examples.elsewhere.graph FOLDER PORT [leave]
"""

import asyncio
import sys

from agentapprovalprotocol.langgraph import ApprovalMiddleware, resumer
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from examples.elsewhere import installation, models, receiving

THREAD = {"configurable": {"thread_id": "releases"}}


async def main(folder: str = "var", port: str = "8765", leave: str = "") -> None:
    made = asyncio.get_running_loop().create_future()

    async def resume(handle, request):
        await (await made)(handle, request)

    saver = AsyncSqliteSaver.from_conn_string(f"{folder}/threads.db")
    async with saver as threads, receiving.receiver(folder, int(port), langgraph=resume) as (url, token):
        asking = ApprovalMiddleware(url, token, mode="async", timeout="24h")
        model, tools = models.for_langgraph(), [installation.send_mail]
        agent = create_agent(model, tools, middleware=[asking], checkpointer=threads)
        made.set_result(resumer(agent))
        if not (await agent.aget_state(THREAD)).values:
            await agent.ainvoke({"messages": [("user", "Tell Ada that the release is out.")]}, THREAD)
        while not leave and (await agent.aget_state(THREAD)).next:
            await asyncio.sleep(0.2)
        print((await agent.aget_state(THREAD)).values["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
