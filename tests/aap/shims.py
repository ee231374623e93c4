"""Agents of three libraries, each with the package's shim, on models that play from a script.

Each is asked to `send` to everybody in `to`, in one turn, and then says what came of it.
"""

import json

from agentapprovalprotocol._client import AsyncClient
from agentapprovalprotocol._gate import AsyncGate

MESSAGE = "Write to them."


class Shim:
    """`sent`: what the tool did, of which there is one place in this process. `resumer`: for the package's Receiver."""

    framework: str

    def __init__(self, client: AsyncClient, mode: str = "sync"):
        self.gate, self.sent = AsyncGate(client, mode=mode), []
        self.make()

    def make(self) -> None:
        raise NotImplementedError

    def send(self, to: str) -> str:
        """Write to somebody."""
        self.sent.append(to)
        return f"sent to {to}"


class PydanticAI(Shim):
    framework = "pydantic-ai"

    def make(self) -> None:
        from agentapprovalprotocol.pydantic_ai import ApprovalCapability
        from pydantic_ai import Agent, DeferredToolRequests
        from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import FunctionModel

        def play(messages, info):
            parts = [part for message in messages for part in message.parts]
            came = [part for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
            if came:
                return ModelResponse(parts=[TextPart("\n".join(part.model_response_str() for part in came))])
            calls = [ToolCallPart("send", {"to": to}, f"call-{to}") for to in self.to]
            return ModelResponse(parts=[TextPart("They asked."), *calls])

        output = [str, DeferredToolRequests] if self.gate.mode == "async" else str
        self.agent = Agent(FunctionModel(play), output_type=output, capabilities=[ApprovalCapability(gate=self.gate)])
        self.agent.tool_plain(self.send)
        self.kept = {}

    async def run(self, *to: str) -> str:
        self.to = to
        result = await self.agent.run(MESSAGE, conversation_id="c")
        self.kept["c"] = result.conversation
        return str(result.output)

    def resumer(self):
        from agentapprovalprotocol.pydantic_ai import resumer

        return resumer(self.agent, load=self.kept.get, save=lambda saved: self.kept.update(c=saved))

    def snapshot(self):
        return self.kept["c"]

    async def again(self, before) -> None:
        """What the library does when somebody answers an old pause once more: it runs the call."""
        from pydantic_ai import DeferredToolResults

        ids = [call.tool_call_id for call in before.deferred_tool_requests.approvals]
        results = DeferredToolResults(approvals=dict.fromkeys(ids, True))
        await self.agent.run(conversation=before, deferred_tool_results=results)


class LangGraph(Shim):
    framework = "langgraph"

    def make(self) -> None:
        from agentapprovalprotocol.langgraph import ApprovalMiddleware
        from langchain.agents import create_agent
        from langchain_core.language_models import BaseChatModel
        from langchain_core.messages import AIMessage, ToolMessage
        from langchain_core.outputs import ChatGeneration, ChatResult
        from langgraph.checkpoint.memory import InMemorySaver

        shim = self

        class Scripted(BaseChatModel):
            _llm_type = "scripted"

            def bind_tools(self, tools, **more):
                return self

            def _generate(self, messages, stop=None, run_manager=None, **more):
                came = [each for each in messages if isinstance(each, ToolMessage)]
                calls = [{"name": "send", "args": {"to": to}, "id": f"call-{to}"} for to in shim.to]
                said = AIMessage("They asked.", tool_calls=calls)
                if came:
                    said = AIMessage("\n".join(str(each.content) for each in came))
                return ChatResult(generations=[ChatGeneration(message=said)])

        def send(to: str) -> str:
            """Write to somebody."""
            return self.send(to)

        asking = ApprovalMiddleware(async_gate=self.gate, mode=self.gate.mode)
        self.agent = create_agent(Scripted(), [send], middleware=[asking], checkpointer=InMemorySaver())
        self.thread = {"configurable": {"thread_id": "t"}}

    async def run(self, *to: str) -> str:
        self.to = to
        result = await self.agent.ainvoke({"messages": [("user", MESSAGE)]}, self.thread)
        return str(result["messages"][-1].content)

    def resumer(self):
        from agentapprovalprotocol.langgraph import resumer

        return resumer(self.agent)

    def snapshot(self):
        return self.agent.get_state(self.thread)

    async def again(self, before) -> None:
        """From an old checkpoint the library runs the node from its top."""
        from langgraph.types import Command

        values = {item.id: True for item in before.interrupts}
        await self.agent.ainvoke(Command(resume=values), before.config)
        await self.agent.ainvoke(Command(resume="yes"), self.thread)


class OpenAIAgents(Shim):
    framework = "openai-agents"

    def make(self) -> None:
        from agentapprovalprotocol.openai_agents import Approvals
        from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
        from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

        shim, self.kept = self, {}
        set_tracing_disabled(True)

        class Scripted(Model):
            async def get_response(self, system_instructions, input, *more, **named):
                came = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
                said = [
                    ResponseFunctionToolCall(
                        name="send", arguments=json.dumps({"to": to}), call_id=f"call-{to}", type="function_call"
                    )
                    for to in shim.to
                ]
                if came:
                    text = "\n".join(str(item["output"]) for item in came)
                    text = ResponseOutputText(text=text, type="output_text", annotations=[])
                    kind = {"role": "assistant", "status": "completed", "type": "message"}
                    said = [ResponseOutputMessage(id="m", content=[text], **kind)]
                return ModelResponse(output=said, usage=Usage(), response_id=None)

            def stream_response(self, *more, **named):
                raise NotImplementedError

        def send(to: str) -> str:
            """Write to somebody."""
            return self.send(to)

        keeping = {}
        if self.gate.mode == "async":
            keeping = {"save": self.kept.__setitem__, "load": self.kept.get}
        self.approvals = Approvals(gate=self.gate, **keeping)
        self.agent = self.approvals.protect(Agent(name="scribe", model=Scripted(), tools=[function_tool(send)]))

    async def run(self, *to: str) -> str:
        self.to = to
        result = await self.approvals.run(self.agent, MESSAGE, run_id="r")
        return str(result.final_output)

    def resumer(self):
        return self.approvals.resumer(self.agent)

    def snapshot(self):
        return self.kept["r"]

    async def again(self, before) -> None:
        """The library runs a saved state as often as it is given: it is approved in it, and run."""
        from agents import Runner, RunState

        state = await RunState.from_string(self.agent, before)
        for item in state.get_interruptions():
            state.approve(item)
        try:
            await Runner.run(self.agent, state)
        except Exception as refused:  # the shim's guardrail
            assert "Tripwire" in type(refused).__name__, refused


SHIMS = [PydanticAI, LangGraph, OpenAIAgents]
