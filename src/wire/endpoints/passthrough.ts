import type { Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { passthroughFields } from "../field-table.ts";
import { Findings, RequestFields } from "../findings.ts";
import { unnamedModel } from "../form.ts";
import { answerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject, jsonMembers, objectOr, parseJson } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import { ambiguousField, modelFault, noParts, objectInFull, type ModelRequest } from "../model-request.ts";
import { refusalEvent } from "../refusals.ts";
import type { Written } from "../output-walk.ts";
import { StreamOutput, StreamTranscript, type EventReader, type StreamAnswer } from "../stream-output.ts";
import { readUsageOf } from "../usage.ts";
import { uncounted } from "./images.ts";

/**
 * Every path that is not known otherwise (`FAREBOX_PASSTHROUGH=all`). What it costs is not known, so it has no price: the
 * model of a short body and the usage of an answer are written down where they are told.
 */
export const passthrough: Endpoint = {
  route: "/*path",
  fields: passthroughFields,
  readRequest: (body) => ({ ok: true, request: requestOf(body) }),
  form: null,
  isOpen: true,
  mayMakeTasks: true,
  answersMedia: true,
  answerReader: () => outlineReader(readAnswer),
  transcript: () => new StreamTranscript({ lastEvents: () => undefined, reading: () => new AnyEventReader() }),
  maximum: null,
  askForUsage: null,
  breakEvent: refusalEvent,
};

const fields = new RequestFields({ model: "priced" });

/** `body`: its first bytes, which may be all of it. */
function requestOf(body: Buffer): ModelRequest {
  const members = objectInFull(body);
  const { model, stream } = members;
  const ambiguous = ambiguousField(
    jsonMembers(body).map(({ name }) => name),
    fields,
  );
  const findings = new Findings();
  if (typeof model === "string") findings.modelsIn("model", model);
  for (const name in members) findings.field(name, members[name], passthroughFields.meaningOf(name));
  return {
    model: modelFault(model) === undefined ? String(model) : unnamedModel,
    stream: stream === true,
    wantsStreamUsage: true,
    size: { textBytes: body.length, ...noParts, choices: 1, outputLimit: 0, unboundedFields: ["path"] },
    unboundedFields: ["path"],
    // Nothing is known of its fields, so that none is unknown: what they name counts.
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

/** A stream of an unknown kind is whole when it ends; its last usage counts. */
class AnyEventReader implements EventReader {
  readonly output = new StreamOutput();
  #usage: Usage | undefined;

  event(data: string): boolean {
    const event = parseJson(data);
    if (isObject(event)) this.#usage = readUsageOf(event) ?? readUsageOf(objectOr(event["response"])) ?? this.#usage;
    return true;
  }

  answer(): Omit<StreamAnswer, keyof Written> {
    return { usage: this.#usage, servedModel: null, finished: true };
  }
}
