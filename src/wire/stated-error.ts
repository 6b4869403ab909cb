import { isOpenStatus, type StatedError } from "../core/settlement.ts";
import { failureReason, type TaskFailure } from "../core/tasks.ts";
import { isObject, listOr, objectOr, omittedText, type JsonObject } from "./json.ts";
import { keyStatuses, saysKeyIsRefused } from "./key-words.ts";
import { chatAnswer } from "./output-members.ts";

/**
 * Reads the error that an answer, or an event of a stream, states: `{"error":{…}}`, `{"code":401,"data":null}`,
 * `{"success":false}` and similar forms. Returns undefined for any other parsed JSON. An answer may contain output or
 * usage in addition to an error; the caller checks that. Unless the answer states an HTTP error status, an error next
 * to data does not count, because the data may be a task or a result. `ignoresData`: true if such an error counts
 * nevertheless.
 */
export function readStatedError(answer: unknown, ignoresData = false): StatedError | undefined {
  return errorIn(answer, (found, root) => found.isError(root, ignoresData));
}

/**
 * Reads an error that a member or an HTTP error status states. A message or an unknown code alone is none, because it
 * may belong to an event that reports progress.
 */
export function readExplicitError(answer: unknown): StatedError | undefined {
  return errorIn(answer, (found, root) => found.isExplicit(root, false));
}

function errorIn(answer: unknown, isError: (found: Evidence, root: JsonObject) => boolean): StatedError | undefined {
  const root = rootOf(answer);
  if (!isObject(root)) return undefined;
  const found = new Evidence();
  found.envelope(root);
  if (!isError(found, root)) return undefined;
  const error = statedError(found.texts, found.codes);
  const mayRefuseKey = error.kind === "refused" && (error.status === null || keyStatuses.has(error.status));
  return mayRefuseKey && found.refusesKey ? { ...error, refusesKey: true } : error;
}

/** Returns the answer, or its only item: some providers send an error as a list with one object. */
function rootOf(answer: unknown): unknown {
  return Array.isArray(answer) && answer.length === 1 ? answer[0] : answer;
}

/** Returns the error for its texts and codes. Words about a timeout take precedence over codes. */
export function statedError(texts: readonly string[], codes: readonly number[]): StatedError {
  const statuses = codes.filter(isHttpError);
  const status = statuses.length === 0 ? null : Math.max(...statuses);
  const open = statuses.find(isOpenStatus);
  const failure = failureReason(texts);
  if (open !== undefined) return { kind: "open", status: open, reason: `gateway_${open}` };
  if (texts.some((text) => timeoutWords.test(text)))
    return { kind: "open", status, reason: timeouts.has(failure) ? failure : "gateway_timeout" };
  // An omitted text may be about a timeout.
  if (status === null && failure === "other" && texts.includes(omittedText))
    return { kind: "open", status, reason: "gateway_error" };
  const [code = "error"] = codes;
  return {
    kind: "refused",
    status,
    reason: status === null && failure !== "other" ? failure : `gateway_${status ?? code}`,
  };
}

const timeouts: ReadonlySet<TaskFailure> = new Set(["network", "upstream_timeout", "time_limit"]);

/** Words about a timeout of the gateway or of a service behind it, also in Chinese. */
const timeoutWords =
  /time.?out|timed.?out|time (?:limit|allowance)|exceeded.{0,30}time|deadline|(?:took|ran) too long|\b(?:408|504|520|524)\b|超时/i;

/** Meaning of a member of an answer. Names are compared in lower case, without `_` and `-`. */
type Role = "error" | "detail" | "errorCode" | "code" | "status" | "flag" | "text" | "type" | "envelope" | "data";

const roles: ReadonlyMap<string, Role> = new Map(
  (
    [
      ["error", "error errors err exception fault is_error has_error fail_reason failure_reason"],
      ["error", "error_msg err_msg error_message error_messages error_description error_info"],
      ["detail", "detail"],
      ["errorCode", "error_code err_code errno"],
      ["code", "code status_code http_code http_status http_status_code ret_code return_code result_code"],
      ["status", "status state"],
      ["flag", "success ok is_success succeeded successful"],
      ["text", "message msg status_message status_msg description reason title"],
      ["type", "type object event"],
      // Members that contain the code and the message of some gateways, and a response in an event.
      ["envelope", "base_resp header response_metadata response"],
      ["data", "data result results output outputs task tasks task_info task_result items list records body"],
    ] as const
  ).flatMap(([role, names]) => names.split(" ").map((name) => [plainName(name), role] as const)),
);

/** Returns a name in lower case, without `_` and `-`. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, "");
}

/** Returns the meaning of a member; undefined for a name that says nothing about an error. */
export function roleOf(name: string): Role | undefined {
  return roles.get(plainName(name));
}

/** Members that an answer without a result states as null or empty. */
const results: readonly string[] = ["choices", "candidates", "output", "data", "result", "body"];

/** Words that mean success, as a code, a status or a message. Codes of success: 0, and 200 to 299. */
const successWords: ReadonlySet<string> = new Set(
  "success successful succeed succeeded ok okay completed complete finished done none null true no-error 成功"
    .split(" ")
    .map(plainName),
);

const failureWords: ReadonlySet<string> = new Set(
  (
    "failed failure fail error err exception rejected denied refused unauthorized forbidden invalid unavailable " +
    "timeout timed-out expired false no"
  )
    .split(" ")
    .map(plainName),
);

/**
 * Words for a request that is not finished. As a code, they are no error. As a status, they show that a message is no
 * error either.
 */
const unfinishedWords: ReadonlySet<string> = new Set(
  (
    "pending staged queued queueing queuing submitted created accepted waiting starting started initializing " +
    "preparing loading processing running working thinking searching generating streaming progress inprogress " +
    "incomplete retry"
  ).split(" "),
);

/** Types of events that report on a running request, or keep a connection open. */
const reportTypes: ReadonlySet<string> = new Set(
  "status info notice progress ping pong keepalive heartbeat".split(" "),
);

function wordOf(text: string): string {
  return text
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+|[.!]+$/g, "");
}

/** Types of an error: `error`, `response.failed`, `invalid_request_error`, `ThrottlingException`. */
const errorType = /^(?:[a-z_]+\.)?(?:error|failed|failure|exception)$|(?:_error|Error|Exception)$/;

/** Returns a code; undefined for any other value. */
function codeOf(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) < 1e9 ? value : undefined;
  return typeof value === "string" && /^\s*-?\d{1,9}\s*$/.test(value) ? Number(value) : undefined;
}

function isHttpError(code: number): boolean {
  return code >= 400 && code <= 599;
}

/** Returns true for a code, word or message that means success. */
export function meansSuccess(value: unknown): boolean {
  const code = codeOf(value);
  if (code !== undefined) return code === 0 || (code >= 200 && code <= 299);
  return value === true || (typeof value === "string" && successWords.has(wordOf(value)));
}

/** Largest depth at which an answer is read. A deeper value counts as present. */
const depthMax = 8;

/** Returns true if a value states nothing: null, false, an empty text, or a list or object of such values. */
export function isAbsent(value: unknown, depth = 0): boolean {
  if (value === undefined || value === null || value === false) return true;
  if (typeof value === "string") return value.trim() === "";
  if (typeof value !== "object" || depth > depthMax) return false;
  return Object.values(value).every((each) => isAbsent(each, depth + 1));
}

/** Returns true if a member for errors states none: it is absent, or contains only absent values and success. */
function isNoError(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) return isAbsent(value) || (value !== true && meansSuccess(value));
  return depth <= depthMax && Object.values(value).every((each) => isNoError(each, depth + 1));
}

/** Returns true if a value contains more than an error: a result, or the id of one. */
export function hasData(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null || depth > depthMax)
    return !isAbsent(value) && value !== true && value !== 0;
  // An object in a list is an item of a result, whatever it contains.
  if (Array.isArray(value))
    return value.some((each) => (isObject(each) ? Object.keys(each).length > 0 : !isAbsent(each)));
  return Object.entries(value).some(([name, each]) => {
    const role = roleOf(name);
    return (role === undefined || role === "data") && hasData(each, depth + 1);
  });
}

/** Returns true if a member of an answer contains data. */
function statesData(root: JsonObject): boolean {
  return Object.keys(root).some((name) => roleOf(name) === "data" && hasData(root[name]));
}

/** Names of texts next to an error that are no result: ids, times, places, and hints for people. */
const labelName =
  /(?:ids?|time|timestamp|date|version|path|host|region|server|language|locale|level|severity|domain|name|method|param|field|instance|solution|suggestion|hint|help|documentation|docs?|info|(?:help|docs?|documentation)(?:url|link))$/;

/** Returns true if an answer contains a text in a member whose meaning is not known. It may be a result. */
function statesOther(object: JsonObject, depth = 0): boolean {
  return Object.entries(object).some(([name, value]) => {
    if (roleOf(name) !== undefined || chatAnswer.members[name] === "free" || labelName.test(plainName(name)))
      return false;
    if (typeof value === "string") return !isAbsent(value);
    if (depth > depthMax) return true;
    return listOr(value)
      .concat(value)
      .some((each) => typeof each === "string" || (isObject(each) && statesOther(each, depth + 1)));
  });
}

/** Names of values next to an error that are no result: times, hints for another try, and what the client asked for. */
const accompanying: ReadonlySet<string> = new Set(
  (
    "ts created created_at updated_at retry_after elapsed took latency latency_ms duration duration_ms " +
    "model task_type choices candidates"
  )
    .split(" ")
    .map(plainName),
);

/**
 * Returns true if an answer that states an error contains nothing but the error: codes, texts, and what accompanies
 * every answer, such as times and the id of the request. 0 and true count as absent.
 */
export function hasOnlyError(answer: unknown, depth = 0): boolean {
  if (depth > depthMax) return false;
  return Object.entries(objectOr(rootOf(answer))).every(([name, value]) => {
    const role = roleOf(name);
    if (role === "data") return !hasData(value);
    if (role === "envelope") return !isObject(value) || hasOnlyError(value, depth + 1);
    return role !== undefined || isAbsent(value) || value === 0 || value === true || mayAccompany(name);
  });
}

function mayAccompany(name: string): boolean {
  return labelName.test(plainName(name)) || accompanying.has(plainName(name));
}

/** Words that say that a request was accepted, and words that deny it, also in Chinese. */
const acceptedWords =
  /\b(?:success|successful|successfully|succeeded|accepted|submitted|created|queued|queueing|enqueued|in (?:the )?queue|queue position|started|processing|pending|waiting)\b|成功|排队|已提交|已接受|处理中/i;
const deniedWords =
  /\b(?:not?|nor|never|cannot|can't|unable|without|fail\w*|error\w*|invalid|insufficient|denied|reject\w*|refused|refuses|exceed\w*|limit\w*|full|too many|missing|required?|must|sensitive|ban\w*|block\w*|forbid\w*|unauthorized|expired?|unsupported|unavailable)\b|n't\b|失败|错误|不|已满|无|违规|敏感|未|超/i;

/** Returns true if a message in the envelope says that the request was accepted: "Submit success", "In queue". */
export function saysAccepted(answer: unknown, depth = 0): boolean {
  if (depth > depthMax) return false;
  return Object.entries(objectOr(rootOf(answer))).some(([name, value]) => {
    const role = roleOf(name);
    if (role === "envelope") return saysAccepted(value, depth + 1);
    return role === "text" && typeof value === "string" && acceptedWords.test(value) && !deniedWords.test(value);
  });
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** Longest text that is compared with words, in UTF-16 units, and the largest number of texts. */
const textUnitsMax = 2000;
const textsMax = 32;

/** Signs of an error and of success in an answer. */
class Evidence {
  readonly texts: string[] = [];
  /** Codes other than success, in the order in which the answer states them. */
  readonly codes: number[] = [];
  /** True if a text says that the gateway does not accept the key. */
  refusesKey = false;
  /** True if a member states an error: `error`, `success: false`, `status: "failed"`. */
  #statesError = false;
  /** True if a code is neither success nor an HTTP error. Its meaning is not known. */
  #hasOtherCode = false;
  #statesSuccess = false;
  /** True if the answer reports on a request that is not finished. */
  #isReport = false;
  #hasMessage = false;
  #hasDetail = false;

  /** Returns true if the signs outweigh the data and the success that the answer also states. */
  isError(root: JsonObject, ignoresData: boolean): boolean {
    if (this.isExplicit(root, ignoresData)) return true;
    if (this.#statesSuccess) return false;
    if (!ignoresData && (this.#mayBeAnswer(root) || statesData(root) || statesOther(root))) return false;
    const lacksResult = results.some((name) => name in root && isAbsent(root[name]) && !isEmptyList(root[name]));
    return this.#hasOtherCode || (this.#hasMessage && lacksResult);
  }

  /** Returns true if a member or an HTTP error status states the error. */
  isExplicit(root: JsonObject, ignoresData: boolean): boolean {
    if (this.codes.some(isHttpError)) return true;
    if (!ignoresData && statesData(root)) return false;
    const isAnswer = !ignoresData && (this.#statesSuccess || this.#mayBeAnswer(root));
    return this.#statesError || (this.#hasDetail && !isAnswer);
  }

  /**
   * Returns true for an answer, or a report on a running request, unless a member states an error. Such reports often
   * have an empty list of choices.
   */
  #mayBeAnswer({ choices, candidates }: JsonObject): boolean {
    return this.#isReport || Array.isArray(choices) || Array.isArray(candidates);
  }

  envelope(object: JsonObject, depth = 0): void {
    // An event of the Responses API may contain the code of a program.
    const hasProgram = typeof object["type"] === "string" && object["type"].startsWith("response.");
    for (const choice of listOr(object["choices"])) this.#choice(choice);
    for (const name in object) {
      const value = object[name];
      const role = roleOf(name);
      if (role === "code") {
        if (!hasProgram) this.#code(value);
      } else if (role === "text") this.#message(value);
      else if (role === "type") this.#type(value);
      else if (role === "envelope" && isObject(value) && depth < 2) this.envelope(value, depth + 1);
      else if (role === "data" && isObject(value)) this.#data(value);
      else if (role !== undefined) this.#member(role, value);
    }
  }

  /** Reads the record in an answer. Its code, type and message may have another meaning than those of an error. */
  #data(record: JsonObject): void {
    for (const name in record) {
      const role = roleOf(name);
      if (role !== undefined && role !== "detail") this.#member(role, record[name]);
    }
  }

  /** Reads a choice of a chat, which some gateways give an error of its own. */
  #choice(choice: unknown): void {
    const { error, finish_reason } = objectOr(choice);
    if (!isNoError(error)) this.#error(error);
    else if (finish_reason === "error") this.#error(finish_reason);
  }

  #member(role: Role, value: unknown): void {
    if (role === "error" || role === "errorCode") {
      if (!isNoError(value)) this.#error(value, role);
    } else if (role === "detail") this.#detail(value);
    else if (role === "status") this.#status(value);
    else if (role === "flag") this.#flag(value);
  }

  #type(value: unknown): void {
    if (typeof value !== "string") return;
    if (errorType.test(value)) this.#error(value);
    else if (reportTypes.has(wordOf(value))) this.#isReport = true;
  }

  #detail(value: unknown): void {
    if (isNoError(value)) return;
    this.#hasDetail = true;
    this.#collect(value, "error", 0);
  }

  #error(value: unknown, role: Role = "error"): void {
    this.#statesError = true;
    this.#collect(value, role, 0);
  }

  /** Collects the texts and codes of an error. */
  #collect(value: unknown, role: Role | undefined, depth: number): void {
    if (typeof value === "object" && value !== null) {
      if (depth > depthMax) return;
      const isList = Array.isArray(value);
      for (const [name, each] of Object.entries(value)) this.#collect(each, isList ? role : roleOf(name), depth + 1);
      return;
    }
    const isCode =
      role === "error" || role === "detail" || role === "errorCode" || role === "code" || role === "status";
    const code = isCode ? codeOf(value) : undefined;
    if (code !== undefined) this.#addCode(code);
    else if (typeof value === "string") this.#text(value, role === undefined);
  }

  #code(value: unknown): void {
    const code = codeOf(value);
    if (meansSuccess(value)) this.#statesSuccess = true;
    else if (code !== undefined) {
      this.#addCode(code);
      this.#hasOtherCode = true;
    } else if (typeof value === "string" && !isAbsent(value) && !unfinishedWords.has(wordOf(value))) {
      this.#text(value);
      this.#hasOtherCode = true;
    }
  }

  #status(value: unknown): void {
    const code = codeOf(value);
    if (meansSuccess(value)) this.#statesSuccess = true;
    else if (code !== undefined && isHttpError(code)) this.#addCode(code);
    else if (typeof value === "string" && failureWords.has(wordOf(value))) this.#error(value);
    else if (typeof value === "string" && unfinishedWords.has(wordOf(value))) this.#isReport = true;
  }

  #flag(value: unknown): void {
    if (value === false || codeOf(value) === 0 || (typeof value === "string" && failureWords.has(wordOf(value))))
      this.#statesError = true;
    else if (meansSuccess(value)) this.#statesSuccess = true;
  }

  #message(value: unknown): void {
    if (typeof value !== "string" || isAbsent(value)) return;
    if (meansSuccess(value)) this.#statesSuccess = true;
    else {
      this.#hasMessage = true;
      this.#text(value);
    }
  }

  #addCode(code: number): void {
    if (!meansSuccess(code)) this.codes.push(code);
  }

  /** Stores a text. `mayRepeat`: true for a member such as `param`, which may repeat text of the request. */
  #text(text: string, mayRepeat = false): void {
    if (this.texts.length >= textsMax || isAbsent(text)) return;
    const kept = text.slice(0, textUnitsMax);
    this.texts.push(kept);
    if (!mayRepeat) this.refusesKey ||= saysKeyIsRefused(kept);
  }
}
