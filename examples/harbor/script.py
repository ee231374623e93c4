"""A model that plays its part from a script, so that the example needs no account and no network.

``deploy <service> <version>`` asks for a deployment, several of them for several at once; ``ask …`` asks a person for
the name of an API key. Then it says what came of it, and what it does not know.
"""

import re

DEPLOY = re.compile(r"\bdeploy ([\w.-]*\w) ([\w.-]*\w)", re.IGNORECASE)
ASK = re.compile(r"\bask\b", re.IGNORECASE)

QUESTION = {
    "prompt": "Which API key should card-api sign its requests with?",
    "schema": {
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "title": "Name of the API key",
                "description": "Its name in the vault, such as card-api-2026. Not the key itself.",
                "minLength": 1,
                "maxLength": 80,
            },
            "rotate": {"type": "boolean", "title": "Withdraw the old key afterwards", "default": False},
        },
        "required": ["name"],
    },
}


def scripted():
    """The model. The library is imported here, so that the web console need not."""
    from pydantic_ai.models.function import FunctionModel

    return FunctionModel(play, model_name="script")


def play(messages, info):
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    if not calls:
        prompt = next(part.content for part in parts if isinstance(part, UserPromptPart))
        says, wanted = first(prompt)
    else:
        came = {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}
        says, wanted = then([(call.tool_name, call.args_as_dict(), came[call.tool_call_id]) for call in calls])
    asked = [ToolCallPart(name, arguments) for name, arguments in wanted]
    return ModelResponse(parts=[TextPart(says), *asked])


def first(prompt):
    """What it says and calls when a message has come."""
    releases = DEPLOY.findall(prompt)
    wanted = [("deploy_release", {"service": service, "version": version}) for service, version in releases]
    says = [f"{service} {version} passed every check I know of." for service, version in releases]
    if ASK.search(prompt):
        wanted.append(("ask_person", QUESTION))
        says.append("I found two API keys for card-api and cannot tell which one is meant.")
    return " ".join(says) or "I can deploy a release: say “deploy card-api 0.8.8”. Nothing was done.", wanted


def then(calls):
    """What it says when every call has its outcome, and what it asks anew because somebody suggested it."""
    suggested = [came["suggestion"] for _, _, came in calls if came.get("suggestion")]
    if suggested and len(calls) < 5 and calls[-1][2].get("suggestion"):
        return "I was told what to ask for instead.", [("deploy_release", suggested[-1])]
    return " ".join(told(name, arguments, came) for name, arguments, came in calls), []


def told(name, arguments, came):
    if name == "ask_person":
        return answer(came)
    release = f"{arguments.get('service')} {arguments.get('version')}"
    match came["outcome"]:
        case "committed":
            return f"{release} is deployed. Harbor calls it {came.get('reference') or 'nothing in particular'}."
        case "not_committed":
            return f"{release} was not deployed: Harbor says no. {came.get('statement', '')}".strip()
        case "unknown":
            return f"Nobody knows whether {release} was deployed. I have not tried again, and I will not."
        case "denied":
            return f"{release} was not deployed: it was denied. {came.get('message', '')}".strip()
        case "expired":
            return f"{release} was not deployed: nobody decided in time."
        case "void":
            return f"{release} was not deployed: the approval was taken back before it was sent."
    return f"{release} was not deployed: {came.get('message', came['outcome'])}"


def answer(came):
    if came["outcome"] != "answered":
        return f"I got no answer ({came['outcome']}), so I changed nothing."
    values = came["values"]
    old = "the old one is to be withdrawn" if values.get("rotate") else "the old one stays"
    return f"card-api signs with the API key named {values['name']}; {old}."
