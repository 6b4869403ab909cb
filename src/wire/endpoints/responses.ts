import type { Endpoint } from "../endpoint.ts";
import { responsesFields } from "../field-table.ts";
import { bufferedReader } from "../model-answer.ts";
import { failedResponseEvents } from "../refusals.ts";
import { readResponse, responsesTranscript } from "./responses-answer.ts";
import { readResponsesRequest } from "./responses-request.ts";

export const responses: Endpoint = {
  route: "/v1/responses",
  fields: responsesFields,
  readRequest: readResponsesRequest,
  form: null,
  answersMedia: false,
  answerReader: () => bufferedReader(readResponse),
  transcript: responsesTranscript,
  maximum: { api: "responses", fields: ["max_output_tokens"], absent: null },
  askForUsage: null,
  breakEvent: failedResponseEvents,
};
