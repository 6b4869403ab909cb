"""Makes one kind of call with OpenAI's SDK and prints what its user sees, as JSON."""

import asyncio
import io
import json
import sys

import openai

MESSAGES = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": 60}


def usage(prompt, completion):
    return {"input": prompt, "output": completion}


def chat(client):
    answer = client.chat.completions.create(**CHAT)
    return answer.choices[0].message.content, usage(answer.usage.prompt_tokens, answer.usage.completion_tokens)


def chat_stream(client):
    pieces = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**CHAT, stream=True)]
    return "".join(pieces), None


def response(client):
    answer = client.responses.create(model="gpt-4o", input="Say hello.", max_output_tokens=60)
    return answer.output_text, usage(answer.usage.input_tokens, answer.usage.output_tokens)


def response_stream(client):
    text = ""
    for event in client.responses.create(model="gpt-4o", input="Say hello.", max_output_tokens=60, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
    counted = event.response.usage
    return text, usage(counted.input_tokens, counted.output_tokens)


def tagged(client):
    def tag(request):
        request.headers.update({"x-farebox-tag": "feature=検索".encode()})

    http_client = openai.DefaultHttpxClient(event_hooks={"request": [tag]})
    return chat(client.with_options(http_client=http_client))


def embeddings(client):
    made = client.embeddings.create(model="text-embedding-3-small", input=["one", "two"])
    return str([len(one.embedding) for one in made.data]), usage(made.usage.prompt_tokens, 0)


def speech(client):
    made = client.audio.speech.create(model="tts-1", voice="alloy", input="Good morning")
    return str(len(made.read()) > 1000), None


def transcription(client):
    recording = ("speech.wav", io.BytesIO(b"\3" * 2_000_000))
    return client.audio.transcriptions.create(model="gpt-4o-mini-transcribe", file=recording).text, None


async def many(client):
    async def one():
        answer = await client.chat.completions.create(**CHAT)
        return answer.choices[0].message.content

    async def stream():
        chunks = await client.chat.completions.create(**CHAT, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

    texts = await asyncio.gather(one(), stream(), one())
    return "\n".join(texts), None


def run(kind):
    if kind == "many":
        return asyncio.run(many(openai.AsyncOpenAI(max_retries=1)))
    return globals()[kind](openai.OpenAI(max_retries=1))


try:
    text, counted = run(sys.argv[1])
    print(json.dumps({"text": text, "usage": counted}))
except openai.APIError as error:
    status = getattr(error, "status_code", None)
    print(json.dumps({"error": type(error).__name__, "status": status, "code": error.code, "message": error.message}))
