"""Runs an agent of the OpenAI Agents SDK, plain or streamed, and prints what its user sees, as JSON."""

import asyncio
import json
import sys

from agents import Agent, Runner, function_tool
from agents.exceptions import AgentsException
from openai import APIError


@function_tool
def weather(city: str) -> str:
    """Weather of a city"""
    return f"Sunny in {city}"


async def answer(kind):
    agent = Agent(name="Greeter", instructions="Be kind.", model="gpt-4o", tools=[weather])
    if kind == "plain":
        return (await Runner.run(agent, "Say hello.")).final_output
    run = Runner.run_streamed(agent, "Say hello.")
    async for _ in run.stream_events():
        pass
    return run.final_output


try:
    print(json.dumps({"text": asyncio.run(answer(sys.argv[1]))}))
except AgentsException as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
except APIError as error:
    status = getattr(error, "status_code", None)
    print(json.dumps({"error": type(error).__name__, "status": status, "code": error.code, "message": error.message}))
