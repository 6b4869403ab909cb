import { readChatAnswer } from "../chat-answer.ts";
import { readChatRequest, withStreamUsage } from "../chat-request.ts";
import { chatTranscript } from "../chat-stream.ts";
import type { Endpoint } from "../endpoint.ts";
import { chatFields } from "../field-table.ts";
import { bufferedReader } from "../model-answer.ts";
import { refusalEvent } from "../refusals.ts";

export const chatCompletions: Endpoint = {
  route: "/v1/chat/completions",
  fields: chatFields,
  readRequest: readChatRequest,
  form: null,
  answersMedia: false,
  answerReader: () => bufferedReader(readChatAnswer),
  transcript: chatTranscript,
  maximum: { api: "chat", fields: ["max_tokens", "max_completion_tokens"], absent: null },
  askForUsage: withStreamUsage,
  breakEvent: refusalEvent,
};
