"""The loop of a hosted Run on pydantic-ai. The library never runs an Action: its deferred tools are our waits (R04).

Each reply of the model is one journal entry: the messages that were new to the model, then its reply. The history is
those entries, one after the other; nothing grows and nothing is written twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    RunContext,
    Tool,
    ToolDefinition,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset, WrapperToolset
from pydantic_ai.usage import UsageLimits

from .. import canonical, questions
from ..errors import InvalidInput
from ..failpoints import failpoint
from ..transitions import Ask, Child, NewEntry, Question
from . import outcomes, registry
from .contained import Command
from .registry import ASK_PERSON, RUN_AGENT, HostedAgent, find
from .steps import CannotGoOn, Steps, legible

RETRIES = 3  # of one call the library refuses (an unknown tool, wrong arguments), before the Run fails


async def converse(steps: Steps) -> str:
    """Run the model from where the journal ends until it is done. Raises Parked when it has to wait."""
    library = _library(steps.agent.name)
    model = _Journaled(_model(steps.agent.name), steps)
    history: list[ModelMessage] = [
        message for reply in steps.replies() for message in ModelMessagesTypeAdapter.validate_json(reply)
    ]
    prompt, results = None if history else steps.message, None
    while True:
        answer = await library.run(
            prompt,
            message_history=history,
            deferred_tool_results=results,
            model=model,
            deps=steps,
            usage_limits=UsageLimits(request_limit=None),
        )
        if isinstance(answer.output, str):
            return answer.output
        history, prompt = answer.all_messages(), None
        results = DeferredToolResults(calls=await _outcomes(steps, model.position, _last_reply(history), answer.output))


def ready(agent: HostedAgent) -> None:
    """Make the agent's model and tools now, so that a worker with a broken one does not start."""
    _model(agent.name)
    _library(agent.name)


@cache
def _model(name: str) -> Model:
    named = find(name).model
    return infer_model(named() if callable(named) and not isinstance(named, Model) else named)


@cache
def _library(name: str) -> Agent:
    agent = find(name)
    return Agent(
        output_type=[str, DeferredToolRequests],
        deps_type=Steps,
        instructions=agent.instructions or None,
        retries=RETRIES,
        toolsets=[_Once(FunctionToolset([*map(_tool, agent.tools)])), _Waits(_definitions(agent))],
    )


def _tool(tool: Callable | Command) -> Callable | Tool:
    if not isinstance(tool, Command):
        return tool

    async def run(ctx: RunContext[Steps], arguments: list[str] | None = None, input: str = "") -> dict:
        place = _place(_last_reply(ctx.messages), ctx.tool_call_id)
        return await tool.run(ctx.deps, f"{_position(ctx.messages)}.{place}", arguments or [], input)

    return Tool(run, takes_ctx=True, name=tool.name, description=tool.description)


def _definitions(agent: HostedAgent) -> list[ToolDefinition]:
    asks = [
        ToolDefinition(
            name=action.name,
            description=f"{action.title}. {action.consequence} A person may have to approve it.",
            parameters_json_schema=action.Parameters.model_json_schema(),
        )
        for action in agent.actions
    ]
    asks.append(ToolDefinition(name=ASK_PERSON, description=_ASK_PERSON, parameters_json_schema=_ASK_PERSON_TAKES))
    if agent.children:
        takes = _takes(agent={"type": "string", "enum": list(agent.children)}, message={"type": "string"})
        asks.append(ToolDefinition(name=RUN_AGENT, description=_RUN_AGENT, parameters_json_schema=takes))
    return asks


def _takes(**properties: dict) -> dict:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_ASK_PERSON = (
    "Ask a person for information you need to go on. `schema` is the form they fill in: a JSON Schema object whose "
    "properties are strings, integers, numbers, booleans or enums. For a password, a key or another secret it "
    'is {"type": "string", "format": "password"}: you get a reference to it, which only tools can open.'
)
_ASK_PERSON_TAKES = _takes(prompt={"type": "string"}, schema={"type": "object"})
_RUN_AGENT = "Run another agent with a message of its own, and get what it says at its end. What it needs, it asks for."


@dataclass
class _Anything:
    """Takes whatever the model wrote. It is read once, strictly, by us, from the raw text (R15)."""

    def validate_json(self, raw, **_):
        return {}

    def validate_python(self, raw, **_):
        return {}


class _Waits(ExternalToolset):
    """Actions and questions: calls whose results come from people and from reality, never from the library."""

    async def get_tools(self, ctx):
        tools = await super().get_tools(ctx)
        return {name: replace(tool, args_validator=_Anything()) for name, tool in tools.items()}


@dataclass
class _Once(WrapperToolset):
    """Plain tools, each finished call journaled under its reply's position and its place in that reply."""

    async def call_tool(self, name, tool_args, ctx, tool):
        async def run():
            return await super(_Once, self).call_tool(name, tool_args, ctx, tool)

        reply = _last_reply(ctx.messages)
        return await ctx.deps.once(str(_place(reply, ctx.tool_call_id)), run, position=_position(ctx.messages))


class _Journaled(WrapperModel):
    """The agent's model; each reply is in the journal before any call in it starts (R22)."""

    def __init__(self, model: Model, steps: Steps):
        super().__init__(model)
        self.steps = steps
        self.position = len(steps.replies()) - 1  # of the newest reply

    async def request(self, messages, model_settings, model_request_parameters):
        await self.steps.journal()
        if self.position + 1 >= self.steps.agent.steps:
            raise CannotGoOn(f"The model gave {self.steps.agent.steps} replies without coming to an end.")
        reply = _with_own_ids(await super().request(messages, model_settings, model_request_parameters))
        self.position += 1
        content = ModelMessagesTypeAdapter.dump_json([*_new(messages), reply]).decode()
        entry = NewEntry("reply", self.position, content)
        waits = {action.name for action in self.steps.agent.actions} | {ASK_PERSON, RUN_AGENT}
        if all(call.tool_name in waits for call in reply.tool_calls):
            self.steps.held.append(entry)  # nothing starts before the wait or the end it is written with
        else:
            await self.steps.journal(entry)
            failpoint("turn.reply_journaled")
        return reply


def _with_own_ids(reply: ModelResponse) -> ModelResponse:
    """A reply whose calls share an id gets its own: a result would not know where it belongs."""
    ids = [call.tool_call_id for call in reply.tool_calls]
    if len(set(ids)) == len(ids):
        return reply
    parts = [
        replace(part, tool_call_id=f"{part.tool_call_id}-{place}") if isinstance(part, ToolCallPart) else part
        for place, part in enumerate(reply.parts)
    ]
    return replace(reply, parts=parts)


def _new(messages: list[ModelMessage]) -> list[ModelMessage]:
    """What follows the model's last reply."""
    since = [place for place, message in enumerate(messages, 1) if isinstance(message, ModelResponse)]
    return messages[since[-1] :] if since else messages


def _last_reply(messages: list[ModelMessage]) -> ModelResponse:
    return next(message for message in reversed(messages) if isinstance(message, ModelResponse))


def _position(messages: list[ModelMessage]) -> int:
    """Of the newest reply among the model's replies."""
    return sum(isinstance(message, ModelResponse) for message in messages) - 1


def _place(reply: ModelResponse, call_id: str) -> int:
    return [call.tool_call_id for call in reply.tool_calls].index(call_id)


async def _outcomes(steps: Steps, position: int, reply: ModelResponse, asked: DeferredToolRequests) -> dict[str, dict]:
    """What came of each deferred call, by the library's id of it. Its wait's key is the journaled place of the call."""
    claim = legible("\n\n".join(part.content for part in reply.parts if isinstance(part, TextPart)).strip())
    keys, waits, results = {}, [], {}
    for call in asked.calls:
        keys[call.tool_call_id] = key = f"{position}.{_place(reply, call.tool_call_id)}"
        try:
            waits.append(_wait(key, call, claim))
        except InvalidInput as wrong:
            results[call.tool_call_id] = outcomes.refused(wrong)
    came = await steps.wait(*waits)
    return results | {id: came[key] for id, key in keys.items() if key in came}


def _wait(key: str, call: ToolCallPart, claim: str) -> Question | Ask | Child:
    match call.tool_name:
        case registry.ASK_PERSON:
            asked = canonical.parse(_raw(call))
            exact = isinstance(asked, dict) and set(asked) == {"prompt", "schema"}
            if not exact or not isinstance(asked["prompt"], str):
                raise InvalidInput(f"{ASK_PERSON} takes a prompt (text) and a schema (an object), and nothing else.")
            return Question(key, asked["prompt"], questions.check(asked["schema"]))
        case registry.RUN_AGENT:
            asked = canonical.parse(_raw(call))
            exact = isinstance(asked, dict) and set(asked) == {"agent", "message"}
            if not exact or not all(isinstance(each, str) for each in asked.values()):
                raise InvalidInput(f"{RUN_AGENT} takes an agent and a message, both texts, and nothing else.")
            return Child(key, asked["agent"], asked["message"])
    return Ask(key, call.tool_name, _raw(call), claim)


def _raw(call: ToolCallPart) -> str:
    """The model's own text; where its provider parsed it already, the text of that."""
    return call.args if isinstance(call.args, str) and call.args else call.args_as_json_str()
