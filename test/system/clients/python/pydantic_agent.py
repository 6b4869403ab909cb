"""Runs an agent of Pydantic AI, plain or streamed, and prints what its user sees, as JSON."""

import asyncio
import json
import sys

import openai
from pydantic_ai import Agent
from pydantic_ai.exceptions import AgentRunError

agent = Agent("openai-chat:gpt-4o", instructions="Be kind.")


@agent.tool_plain
def weather(city: str) -> str:
    """Weather of a city"""
    return f"Sunny in {city}"


async def streamed():
    async with agent.run_stream("Say hello.") as run:
        return "".join([text async for text in run.stream_text(delta=True)])


try:
    text = agent.run_sync("Say hello.").output if sys.argv[1] == "plain" else asyncio.run(streamed())
    print(json.dumps({"text": text}))
except (AgentRunError, openai.APIError) as error:
    shown = {"error": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}
    print(json.dumps(shown))
