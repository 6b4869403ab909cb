"""Asks once with LangChain's OpenAI chat model, plain or streamed, and prints what its user sees, as JSON."""

import json
import sys

import openai
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="gpt-4o", max_retries=0)
try:
    if sys.argv[1] == "plain":
        text = model.invoke("Say hello.").text
    else:
        text = "".join(chunk.text for chunk in model.stream("Say hello."))
    print(json.dumps({"text": str(text)}))
except openai.APIError as error:
    status = getattr(error, "status_code", None)
    print(json.dumps({"error": type(error).__name__, "status": status, "code": error.code, "message": error.message}))
