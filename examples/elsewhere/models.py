"""Three models that play from a script, so that nobody needs an account: call `send_mail` once, then say what came."""

import json
import os

MAIL = {"to": "ada@example.com", "subject": "The release is out"}
NAMED = os.environ.get("MODEL")  # a real one, as its library writes it


def for_pydantic_ai():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def play(messages, info) -> ModelResponse:
        came = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if came:
            return ModelResponse(parts=[TextPart(came[0].model_response_str())])
        return ModelResponse(parts=[TextPart("They asked for it."), ToolCallPart("send_mail", MAIL, "call-1")])

    return NAMED or FunctionModel(play)


def for_langgraph():
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        _llm_type = "scripted"

        def bind_tools(self, tools, **more):
            return self

        def _generate(self, messages, stop=None, run_manager=None, **more) -> ChatResult:
            call = {"name": "send_mail", "args": MAIL, "id": "call-1"}
            said = AIMessage("They asked for it.", tool_calls=[call])
            if isinstance(messages[-1], ToolMessage):
                said = AIMessage(messages[-1].content)
            return ChatResult(generations=[ChatGeneration(message=said)])

    return NAMED or Scripted()


def for_openai_agents():
    from agents import Model, ModelResponse, Usage, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):
        async def get_response(self, system_instructions, input, *more, **named) -> ModelResponse:
            came = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
            call = {"name": "send_mail", "arguments": json.dumps(MAIL), "call_id": "call-1", "type": "function_call"}
            said = [ResponseFunctionToolCall(**call)]
            if came:
                text = ResponseOutputText(text=str(came[-1]["output"]), type="output_text", annotations=[])
                said = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            return ModelResponse(output=said, usage=Usage(), response_id=None)

        def stream_response(self, *more, **named):
            raise NotImplementedError

    set_tracing_disabled(NAMED is None)
    return NAMED or Scripted()
