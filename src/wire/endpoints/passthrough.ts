import { laterUsage } from "../../core/several-usages.ts";
import type { Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { passthroughFields } from "../field-table.ts";
import { Findings, RequestFields } from "../findings.ts";
import { unnamedModel } from "../form.ts";
import { answerTerms, type ModelAnswer, type Written } from "../model-answer.ts";
import { isObject, jsonMembers, objectOr, parseJson } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import { ambiguousField, modelFault, noParts, objectInFull, type ModelRequest } from "../model-request.ts";
import { refusalEvent } from "../refusals.ts";
import { StreamOutput, StreamTranscript, type EventReader, type StreamAnswer } from "../stream-output.ts";
import { readUsageOf } from "../usage.ts";
import { userInBody } from "../headers.ts";
import { uncounted } from "./images.ts";

/**
 * Endpoint for all other paths (`FAREBOX_PASSTHROUGH=all`). Their cost is unknown, so they have no price. The charge
 * records the model if the first bytes of the body name it, and the usage if the answer states it.
 */
export const passthrough: Endpoint = {
  route: "/*path",
  fields: passthroughFields,
  readRequest: (body) => ({ ok: true, request: requestOf(body) }),
  isOpen: true,
  mayMakeTasks: true,
  answersMedia: true,
  answerReader: () => outlineReader(readAnswer),
  transcript: () => new StreamTranscript(() => new AnyEventReader()),
  breakEvent: refusalEvent,
};

const fields = new RequestFields({ model: "priced" });

/** Reads the request from the first bytes of its body, which may be the whole body. */
function requestOf(body: Buffer): ModelRequest {
  const members = objectInFull(body);
  const { model, stream } = members;
  const ambiguous = ambiguousField(
    jsonMembers(body).map(({ name }) => name),
    fields,
  );
  const findings = new Findings();
  if (typeof model === "string") findings.modelsIn("model", model);
  findings.user = userInBody(members);
  for (const name in members) findings.field(name, members[name], passthroughFields.meaningOf(name));
  return {
    model: modelFault(model) === undefined ? String(model) : unnamedModel,
    stream: stream === true,
    wantsStreamUsage: true,
    size: { textBytes: body.length, ...noParts, choices: 1, outputLimit: 0, unboundedFields: ["path"] },
    unboundedFields: ["path"],
    // Farebox does not know the fields of these paths, so it reports none as unknown. Models that fields name still
    // count.
    fields: findings.withoutUnknown(),
    classes: { prompt: ["input"], completion: [] },
    prompt: uncounted,
    isUnseen: true,
    isUnpriced: true,
    modelDoubt: ambiguous?.refusal,
  };
}

function readAnswer(body: unknown): ModelAnswer | undefined {
  const answer = objectOr(body);
  return { usage: readUsageOf(answer), ...answerTerms(answer), texts: [], isAnswer: true };
}

/** Reads a stream of an unknown kind. The stream is complete whenever it ends. */
class AnyEventReader implements EventReader {
  readonly output = new StreamOutput();
  #usage: Usage | undefined;

  event(data: string): boolean {
    const event = parseJson(data);
    for (const place of [event, objectOr(event)["response"]])
      if (isObject(place)) this.#usage = laterUsage(this.#usage, readUsageOf(place));
    return true;
  }

  answer(): Omit<StreamAnswer, keyof Written> {
    return { usage: this.#usage, servedModel: null, finished: true };
  }
}
