import { isUtf8 } from "node:buffer";
import type { Refused } from "../../core/refusals.ts";
import { laterUsage } from "../../core/several-usages.ts";
import type { Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { passthroughFields } from "../field-table.ts";
import { equalFolded, Findings, RequestFields, userInBody } from "../findings.ts";
import { ambiguousPart, formFindings, unclearForm, type Form } from "../form.ts";
import { answerTerms, type ModelAnswer, type AnswerOutput } from "../model-answer.ts";
import {
  isObject,
  jsonMembers,
  jsonSkeleton,
  membersNamed,
  objectOr,
  parseJson,
  repeatedMember,
  repeatsMember,
} from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import { isOutputMember } from "../output-names.ts";
import {
  ambiguousField,
  givenTwice,
  modelFault,
  noParts,
  parseBody,
  unnamedModel,
  type ModelRequest,
  type ModelRequestResult,
} from "../model-request.ts";
import { refusalEvent } from "../refusals.ts";
import { StreamOutput, type StreamAnswer } from "../stream-output.ts";
import { StreamTranscript, type EventReader } from "../stream-transcript.ts";
import { readUsageOf } from "../usage.ts";
import { uncounted } from "./images.ts";

/**
 * Endpoint for all other paths (`FAREBOX_PASSTHROUGH=all`). Their cost is unknown, so they have no price. The charge
 * records the model if the body names it, and the usage if the answer states it.
 */
export const passthrough: Endpoint = {
  route: "/*path",
  fields: passthroughFields,
  readRequest: readBody,
  readForm,
  isUnknown: true,
  mayMakeTasks: true,
  answersMedia: true,
  answerReader: () => outlineReader(readAnswer),
  transcript: () => new StreamTranscript(() => new AnyEventReader()),
  breakEvent: refusalEvent,
};

const fields = new RequestFields({ model: "priced" });

/** Types of bodies that every gateway reads as JSON. */
const jsonType = /^(?:application|text)\/(?:[\w.+-]+\+)?json\s*(?:;\s*charset="?(?:utf-?8|us-ascii)"?\s*)?$/i;
/** Largest part of a body of another type that counts as text, in bytes. */
const unreadBytesMax = 64 * 1024;

/** Properties of a request that its body states. */
interface StatedProperties extends Pick<ModelRequest, "stream" | "unread"> {
  readonly model: unknown;
  readonly findings: Findings;
  readonly textBytes: number;
  /** Names outside JSON that may be output maximums. */
  readonly names: readonly string[];
  /** JSON texts whose members may be output maximums. */
  readonly json: readonly Buffer[];
}

function nothing(): StatedProperties {
  return { model: null, stream: false, findings: new Findings(), textBytes: 0, names: [], json: [] };
}

function readBody(body: Buffer, contentType = ""): ModelRequestResult {
  if (body.length === 0) return requestOf(nothing());
  // A long text cannot name a model.
  const skeleton = jsonSkeleton(body);
  const value = skeleton && parseBody(skeleton);
  const isJson = contentType === "" || jsonType.test(contentType);
  const textBytes = isJson ? body.length : Math.min(body.length, unreadBytesMax);
  const otherType = isJson ? undefined : `Farebox does not read a body of type '${contentType}'`;
  if (skeleton === undefined || value === undefined || !isUtf8(body)) {
    const fault = skeleton === undefined ? "the body has too many values" : "the body is not valid JSON in UTF-8";
    return requestOf({ ...nothing(), textBytes, unread: otherType ?? fault });
  }
  const members = jsonMembers(skeleton);
  const object = objectOr(value);
  const findings = new Findings();
  findings.user = userInBody(object);
  for (const name in object) findings.field(name, object[name], passthroughFields.meaningOf(name));
  const whole = { name: "", valueStart: 0, valueEnd: skeleton.length };
  for (const { name, valueStart, valueEnd } of isObject(value) ? members : [whole])
    if (passthroughFields.meaningOf(name) !== "free") nameModelsIn(skeleton.subarray(valueStart, valueEnd), findings);
  const ambiguous = ambiguousField(
    members.map(({ name }) => name),
    fields,
  );
  const repeats = repeatsMember(skeleton, value);
  const repeated = repeats ? repeatedMember(skeleton, passthroughFields.repeatable) : undefined;
  return requestOf({
    model: object["model"],
    stream: object["stream"] === true,
    findings,
    textBytes,
    names: [],
    json: [skeleton],
    unread: otherType ?? refusalMessageOf(ambiguous ?? (repeated === undefined ? undefined : givenTwice(repeated))),
  });
}

function refusalMessageOf(refused: Refused | undefined): string | undefined {
  return refused?.refusal.code === "invalid_request" ? refused.refusal.message : undefined;
}

/** Records the models that members named `model` state, at any depth of a JSON text. */
function nameModelsIn(json: Buffer, findings: Findings): void {
  for (const { valueStart, valueEnd } of membersNamed(json, (name) => equalFolded(name, "model"))) {
    const model = parseJson(json.toString("utf8", valueStart, valueEnd));
    if (typeof model === "string") findings.model(model);
  }
}

function readForm(form: Form | undefined): ModelRequestResult {
  if (form === undefined) return requestOf({ ...nothing(), textBytes: unreadBytesMax, unread: unclearForm });
  const findings = formFindings(form, passthroughFields);
  const json = form.texts.filter((value) => typeof parseBody(value) === "object");
  for (const text of json) nameModelsIn(text, findings);
  return requestOf({
    model: form.value("model"),
    stream: form.value("stream") === "true",
    findings,
    textBytes: form.textBytes(),
    // Some readers take "config[max_tokens]" for a member.
    names: form.parts.flatMap(({ name }) => name.split(/[[\].]/)),
    json,
    unread: refusalMessageOf(ambiguousPart(form, fields) ?? form.tooLong),
  });
}

function requestOf({ model, stream, findings, textBytes, names, json, unread }: StatedProperties): ModelRequestResult {
  if (typeof model === "string") findings.modelsIn("model", model);
  const tooMuch = findings.hasTooMany ? "the body names too many models, or has too many texts" : undefined;
  const request: ModelRequest = {
    model: modelFault(model) === undefined ? String(model) : unnamedModel,
    stream,
    wantsStreamUsage: true,
    size: { textBytes, ...noParts, choices: 1, outputMax: 0, unboundedFields: ["path"] },
    unboundedFields: ["path"],
    // Farebox does not know the fields of these paths, so it reports none as unknown. Models that fields name still
    // count.
    fields: findings.withoutUnknown(),
    classes: { prompt: ["input"], completion: [] },
    prompt: uncounted,
    isUnseen: true,
    isUnpriced: true,
    unread: unread ?? tooMuch,
    outputMember: names.find(isOutputMember) ?? json.map(outputMemberIn).find((name) => name !== undefined),
  };
  return { ok: true, request };
}

/** Returns the first member of a JSON text that `isOutputMember` accepts and that is not null; undefined for none. */
function outputMemberIn(json: Buffer): string | undefined {
  for (const { name, valueStart, valueEnd } of membersNamed(json, isOutputMember))
    if (json.toString("latin1", valueStart, valueEnd) !== "null") return name;
  return undefined;
}

function readAnswer(body: unknown): ModelAnswer | undefined {
  const answer = objectOr(body);
  return { usage: readUsageOf(answer), ...answerTerms(answer), texts: [], isAnswer: true };
}

/** Reads a stream of an unknown kind. The stream is complete whenever it ends. */
class AnyEventReader implements EventReader {
  readonly output = new StreamOutput();
  readonly isComplete = true;
  #usage: Usage | undefined;

  event(data: string): boolean {
    const event = parseJson(data);
    for (const place of [event, objectOr(event)["response"]])
      if (isObject(place)) this.#usage = laterUsage(this.#usage, readUsageOf(place));
    return true;
  }

  answer(): Omit<StreamAnswer, keyof AnswerOutput> {
    return { usage: this.#usage, servedModel: null, finished: true };
  }
}
