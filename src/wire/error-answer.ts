import type { StatedError } from "../core/settlement.ts";
import { isObject, listOr, omittedText, type JsonObject } from "./json.ts";
import { answerTerms, walkOutput, type ModelAnswer, type OutputSink } from "./model-answer.ts";
import { chatAnswer, type Known, type Shape } from "./output-members.ts";
import { hasData, isAbsent, readStatedError, roleOf } from "./stated-error.ts";

/**
 * Returns an answer, or instead the error that its body states in place of output and usage. `parse` returns the parsed
 * body. It is called only for an answer without text and usage, because most answers state no error.
 */
export function orError(
  answer: ModelAnswer | undefined,
  parse: () => unknown,
  hasOutput: (body: JsonObject) => boolean,
): ModelAnswer | undefined {
  if (answer !== undefined && (answer.texts.length > 0 || usesAnything(answer.usage))) return answer;
  const parsed = parse();
  const body: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
  const error = readStatedError(parsed);
  if (error === undefined || !isObject(body) || statesUsage(body) || hasOutput(body)) return answer;
  return { usage: undefined, ...answerTerms(body), texts: [], isAnswer: false, error };
}

/** Returns the error that an event of a stream states. An error that states a usage in any form may be billed. */
export function readEventError(event: JsonObject): StatedError | undefined {
  const error = readStatedError(event);
  return error !== undefined && statesUsage(event) ? { ...error, kind: "open" } : error;
}

/** Members that state what the gateway counted. */
const usageName = /usage|^billed_units$|^tokens$|^(?:prompt|completion|total|input|output)_tokens$/i;

/** Largest depth at which a usage is searched. */
const usageDepthMax = 4;

/**
 * Members of an error that state what the gateway counted. Other numbers in an error, such as `input_tokens`, may be
 * those of a request that it refused.
 */
const usageNameInError = /^usage(?:_?metadata)?$/i;

/** Returns true if an answer states a usage above 0, in any form and also in an error. */
export function statesUsage(value: unknown, names = usageName, depth = 0): boolean {
  if (typeof value !== "object" || value === null || depth > usageDepthMax) return false;
  return Object.entries(value).some(([name, each]) => {
    if (names.test(name)) return usesAnything(each);
    const role = roleOf(name);
    const isError = role === "error" || role === "detail";
    return statesUsage(each, isError ? usageNameInError : names, depth + 1);
  });
}

/** Returns true if a value contains a number above 0, also as text. */
function usesAnything(value: unknown, depth = 0): boolean {
  if (typeof value === "object" && value !== null)
    return depth > usageDepthMax || Object.values(value).some((each) => usesAnything(each, depth + 1));
  return value === omittedText || (Number(value ?? 0) > 0 && value !== true);
}

/**
 * Longest text in an unknown member that may be an id, an address or a hint, in bytes. A longer text counts as output.
 */
const labelBytesMax = 256;

/** Members outside the known output whose content is output, however short it is. */
const outputNames: ReadonlySet<string> = new Set(
  (
    "text content answer reply completion generated_text output_text delta refusal reasoning thinking " +
    "audio image images video url b64_json embedding embeddings transcript transcription sample " +
    "image_url image_urls audio_url video_url output_url"
  ).split(" "),
);

/**
 * Returns true if an answer that states an error also contains output. `outputs` are the members that contain it, and
 * `envelope` are the other known members.
 */
export function hasOutputIn(body: JsonObject, envelope: Shape, outputs: Readonly<Record<string, Known>>): boolean {
  let found = hasDataIn(body);
  const find = () => void (found = true);
  const sink: OutputSink = {
    text: find,
    sealed: find,
    media: find,
    unknown(bytes, at) {
      const isLabel = at in body && !outputNames.has(at) && bytes <= labelBytesMax;
      if (bytes > 0 && !isLabel) find();
    },
  };
  for (const name in body) {
    if (Object.hasOwn(outputs, name)) walkOutput(body[name], outputs[name], `${name}.`, sink);
    else if (roleOf(name) === undefined) walkOutput(body[name], envelope.members[name], name, sink);
  }
  return found;
}

/**
 * Returns true if the outline of an answer that states an error also contains output. An outline omits deep objects, so
 * any choice and any object with an unknown name count as output.
 */
export function hasOutputInOutline(body: JsonObject): boolean {
  return (
    hasDataIn(body) ||
    listOr(body["choices"]).length > 0 ||
    Object.entries(body).some(([name, value]) => {
      if (isAbsent(value) || roleOf(name) !== undefined || chatAnswer.members[name] === "free") return false;
      return outputNames.has(name) || typeof value === "object" || isLong(value);
    })
  );
}

function isLong(value: unknown): boolean {
  return typeof value === "string" && (value === omittedText || Buffer.byteLength(value) > labelBytesMax);
}

/** Returns true if members that may contain an error contain other data instead. */
function hasDataIn(body: JsonObject): boolean {
  return Object.entries(body).some(([name, value]) => {
    const role = roleOf(name);
    return role === "data" || role === "envelope"
      ? hasData(value)
      : role === "text" && typeof value === "object" && !isAbsent(value);
  });
}
