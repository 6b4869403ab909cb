"""Makes calls with Anthropic's SDK, one after another, and prints what its user sees, as a list in JSON."""

import json
import sys

import anthropic

ASKED = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "Say hello."}]}
MESSAGE = {**ASKED, "max_tokens": 60}
WEATHER = {
    "name": "weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOL = {"tools": [WEATHER], "tool_choice": {"type": "any"}}


def shown(message):
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "usage": {"input": message.usage.input_tokens, "output": message.usage.output_tokens},
        "tools": [{"name": block.name, "input": block.input} for block in message.content if block.type == "tool_use"],
        "stop": message.stop_reason,
    }


def plain(client, more={}):
    return shown(client.messages.create(**MESSAGE, **more))


def stream(client, more={}):
    with client.messages.stream(**MESSAGE, **more) as events:
        for _ in events:
            pass
        return shown(events.get_final_message())


def tool(client):
    return plain(client, TOOL)


def tool_stream(client):
    return stream(client, TOOL)


def count_tokens(client):
    return {"count": client.messages.count_tokens(**ASKED, tools=[WEATHER]).input_tokens}


def models(client):
    return {"models": [model.id for model in client.models.list(limit=3)]}


def seen(client, kind):
    try:
        return globals()[kind](client)
    except anthropic.APIError as error:
        return {
            "error": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "body": error.body,
        }


client = anthropic.Anthropic(max_retries=1)
print(json.dumps([seen(client, kind) for kind in sys.argv[1:]]))
