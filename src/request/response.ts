import type { Refusal } from "../core/refusals.ts";
import type { Outcome, StatedError } from "../core/settlement.ts";
import { BodyBytes, type Exchange, type HeaderList } from "../ports/exchange.ts";
import type { GatewayHead } from "../ports/gateway.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/content-encoding.ts";
import { withoutByteOrderMark } from "../wire/json.ts";
import {
  KeptBytes,
  type Answered,
  type AnswerReader,
  type AnswerTerms,
  type ModelAnswer,
} from "../wire/model-answer.ts";
import type { Pace } from "./stream-watch.ts";
import type { Log } from "../ports/log.ts";
import { tasksNamed } from "../wire/task.ts";

/** End of a forwarded request. The meter derives the outcome of the charge from it. */
export type Ending =
  /** No complete request reached the gateway. */
  | { readonly kind: "notSent"; readonly reason: string }
  /** The gateway answered with a status other than success. */
  | { readonly kind: "status"; readonly status: number }
  /** The answer is complete. `ranMs`: milliseconds from sending to its end. */
  | ({ readonly kind: "whole"; readonly ranMs: number } & Answered)
  /** A stream was cut after the request was sent. `ranMs`: milliseconds from sending to the cut. */
  | ({
      readonly kind: "cut";
      readonly reason: string;
      readonly ranMs: number;
      /** True if the gateway may have sent output that was not read. */
      readonly isUnread?: boolean;
    } & Answered)
  /** The answer states an error in place of output and usage. */
  | { readonly kind: "error"; readonly error: StatedError }
  /** The content of the answer has already decided the outcome of the charge. */
  | { readonly kind: "judged"; readonly outcome: Outcome }
  /** The request was sent, but its result is not known. `unreadBytes`: size of an answer that cannot be read. */
  | { readonly kind: "unknown"; readonly reason: string; readonly unreadBytes?: number };

/** End of an answer. `task`: the answer names a new task, which settles the charge. */
export type ResponseEnding = Ending | { readonly kind: "task" } | UsageRefused;

/**
 * The gateway refused the request, probably because Farebox asked for stream usage. The client has no answer yet.
 * `otherwise`: the ending if the request is not sent again.
 */
export interface UsageRefused {
  readonly kind: "usageRefused";
  readonly otherwise: Ending;
}

export function writtenIn({ usage, soFar, texts, uncountable }: Answered): Answered {
  return { usage, ...(soFar && { soFar }), texts, ...(uncountable && { uncountable }) };
}

/** Forwarded request, with data for its charge. */
export interface Forwarded<E extends ResponseEnding = ResponseEnding> {
  readonly ending: E;
  /** Terms that the answer states in addition to its content; null for none. */
  readonly terms: AnswerTerms | null;
  readonly gatewayRequestId: string | null;
  /** Time from arrival to the first byte of the answer's body, in milliseconds; null if there was none. */
  readonly firstTokenMs: number | null;
  /** Time from arrival to the call to the gateway, in milliseconds; null if nothing was sent. */
  readonly overheadMs: number | null;
}

/** Dependencies of every mode of a response. */
export interface ResponseDeps {
  readonly exchange: Exchange;
  readonly head: GatewayHead;
  /** Headers that the client gets. */
  readonly headers: HeaderList;
  /** Stops and resumes reading from the gateway, for a slow client. */
  readonly pace: Pace;
  /** Returns the milliseconds since the request was sent. */
  ranMs(): number;
  /** Receives the terms that the answer states in addition to its content; null for none. */
  onTerms(terms: AnswerTerms | null): void;
}

/** Changes a complete answer for its client. Returns the same object if there is nothing to change. */
export type AnswerChange = (bytes: Buffer) => Buffer;

export const unchangedAnswer: AnswerChange = (bytes) => bytes;

/** Decision on a complete answer before its client gets it. */
export interface Verdict {
  readonly ending: ResponseEnding;
  /** Changes to the answer. Null if the client does not get it, because it gets a refusal or another answer. */
  readonly show: AnswerChange | null;
}

/** Sends a refusal instead of an answer that the client must not get. Returns the verdict on the answer. */
export function withhold(exchange: Exchange, refusal: Refusal, ending: ResponseEnding): Verdict {
  if (!exchange.clientGone) exchange.refuse(refusal);
  return { ending, show: null };
}

/** Refusal of a request whose answer refuses the key of this proxy. The client's own key is right. */
export const keyRefused: Refusal = { code: "gateway_key_refused" };

/** Refusal of a request for a task that the caller does not own. It does not reveal whether the task exists. */
export const noSuchTask: Refusal = { code: "not_found", message: "There is no such task." };

/**
 * Reason in the charge of a request whose answer named a task of another key. The cost of such a request is not known.
 */
export const foreignTaskReason = "task_of_another_key";

/** Returns the id of the key that made a task; undefined for a task that the ledger does not know. */
export type TaskOwner = (taskId: string) => Promise<string | undefined>;

interface AnsweredCaller {
  readonly requestId: string;
  readonly key: string;
}

interface OwnerDeps {
  readonly taskOwner: TaskOwner;
  readonly log: Log;
}

/** Returns true if the gateway's answer names a task of another key, so that it must not be passed on. */
export function showsForeignTask(
  deps: OwnerDeps,
  answer: Buffer | ReadonlySet<string>,
  to: AnsweredCaller,
): boolean | Promise<boolean> {
  const named = Buffer.isBuffer(answer) ? tasksNamed(answer) : answer;
  return named.size > 0 && anyForeign(deps, named, to);
}

/** Returns true if another key owns one of the tasks, or if the owner of one cannot be read. */
async function anyForeign(
  { taskOwner, log }: OwnerDeps,
  named: ReadonlySet<string>,
  { requestId, key }: AnsweredCaller,
): Promise<boolean> {
  try {
    for (const taskId of named) {
      const owner = await taskOwner(taskId);
      if (owner === undefined || owner === key) continue;
      log.warn(
        { request_id: requestId, task_id: taskId },
        "the gateway answered with a task of another key; the answer is not shown",
      );
      return true;
    }
    return false;
  } catch (error) {
    log.error(
      { request_id: requestId, err: error },
      "the owner of a task could not be looked up; the answer is not shown",
    );
    return true;
  }
}

/**
 * Passes bytes to the client. If the client is slow, pauses reading from the gateway until the client has accepted the
 * bytes, and returns false.
 */
export function passOn({ exchange, pace }: ResponseDeps, bytes: Buffer): boolean {
  if (exchange.clientGone || exchange.write(bytes)) return true;
  pace.pause();
  exchange.onDrain(() => pace.resume());
  return false;
}

/** Way to pass an answer on: whole, once it is complete, or piece by piece as it arrives. */
export interface ResponseMode {
  /** Receives bytes. `isLast`: true if they are known to complete the answer. */
  chunk(bytes: Buffer, isLast: boolean): void;
  /** Ends an answer whose framing shows that it is complete. */
  end(): Promise<ResponseEnding> | ResponseEnding;
  /**
   * Ends an answer that broke off. The client gets `refusal`, an error event or a broken connection. `isUnread`: true
   * if the gateway may have sent bytes that were not read.
   */
  broken(reason: string, refusal: Refusal, isUnread: boolean): Promise<Ending> | Ending;
  /**
   * Ends the client's answer before the bytes that the gateway has sent are read. Absent if an answer that broke off
   * does not show its cost.
   */
  cutOff?(reason: string, refusal: Refusal): void;
  /** Releases the memory of an answer that is over and read. */
  release?(): void;
}

/**
 * Passes sound, images and other media on without reading them. Sends each piece in the event-loop turn in which it
 * arrived.
 */
export class PassthroughResponse implements ResponseMode {
  readonly #deps: ResponseDeps;

  constructor(deps: ResponseDeps) {
    this.#deps = deps;
    deps.exchange.begin(deps.head.status, deps.headers);
  }

  chunk(bytes: Buffer): void {
    passOn(this.#deps, bytes);
  }

  end(): Ending {
    this.#deps.exchange.end();
    return { kind: "whole", usage: undefined, texts: [], ranMs: this.#deps.ranMs() };
  }

  broken(reason: string, _refusal: Refusal): Ending {
    this.#deps.exchange.breakOff();
    return { kind: "unknown", reason };
  }
}

/**
 * Largest answer that is held until it is complete, in bytes. Farebox holds answers so that their headers can state
 * their cost.
 */
export const heldBytesMax = 1024 * 1024;

/** Reads and discards an answer that refuses the key of this proxy. The client gets a refusal of Farebox. */
export class RefusedKeyResponse implements ResponseMode {
  readonly #deps: Pick<ResponseDeps, "exchange" | "head">;

  constructor(deps: Pick<ResponseDeps, "exchange" | "head">) {
    this.#deps = deps;
  }

  chunk(): void {}

  end(): Ending {
    const { exchange, head } = this.#deps;
    if (!exchange.clientGone) exchange.refuse(keyRefused);
    return { kind: "status", status: head.status };
  }

  broken(): Ending {
    return this.end();
  }
}

/** Rules for an answer that is held until it is complete. */
export interface AnswerRules {
  /**
   * Decides on a held answer before its client gets it. `plain`: the decoded body; undefined if it cannot be decoded.
   * Returns null to pass the answer on.
   */
  inspect(status: number, plain: Buffer | undefined): Verdict | null | Promise<Verdict | null>;
  /** Returns headers with the cost of an answer; none if it reports no usage. */
  costHeaders(answer: ModelAnswer): HeaderList;
}

interface BufferedDeps extends ResponseDeps, AnswerRules {
  /**
   * Returns the ending of an answer that refuses the key of this proxy; null for any other answer. `error`: the error
   * in an answer with a success status, if it is known.
   */
  keyRefusal(plain: Buffer, error: StatedError | undefined): Ending | null;
  readonly reader: AnswerReader;
  readonly mask: Mask;
  /** Largest answer that is held, in bytes. */
  readonly bytesMax: number;
  /** Ends the call if the answer is larger than `bytesMax`. Null if a larger answer is passed on as it arrives. */
  readonly onTooLarge: (() => void) | null;
}

/** Returns the ending of a complete answer with a success status. `bytes`: its size. */
export function wholeEnding(answer: ModelAnswer | undefined, bytes: number, ranMs: number): Ending {
  if (answer?.error !== undefined) return { kind: "error", error: answer.error };
  if (answer === undefined || (answer.usage === undefined && !answer.isAnswer)) {
    return { kind: "unknown", reason: "unreadable_answer", unreadBytes: bytes };
  }
  return { kind: "whole", ...writtenIn(answer), ranMs };
}

interface Decoded {
  /** True if the reader got the whole answer. */
  readonly isRead: boolean;
  /** Whole decoded answer. Undefined if it cannot be decoded, was partly passed on, or is too large to be kept. */
  readonly plain: Buffer | undefined;
}

/** Holds an answer until it is complete. An answer that is too large is passed on as it arrives, or refused. */
export class BufferedResponse implements ResponseMode {
  readonly #deps: BufferedDeps;
  /** Bytes that have not been passed on yet. */
  #held: Buffer[] = [];
  #bytes = 0;
  /** Compressed answer, which is decoded at its end; undefined for an answer without compression. */
  readonly #compressed: KeptBytes | undefined;
  #passing = false;

  constructor(deps: BufferedDeps) {
    this.#deps = deps;
    this.#compressed = isPlain(deps.head.header("content-encoding")) ? undefined : new KeptBytes();
  }

  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    (this.#compressed ?? this.#deps.reader).push(bytes);
    if (this.#passing) return void passOn(this.#deps, bytes);
    this.#held.push(bytes);
    if (this.#bytes <= this.#deps.bytesMax) return;
    if (this.#deps.onTooLarge !== null) this.#deps.onTooLarge();
    else this.#pass();
  }

  async end(): Promise<ResponseEnding> {
    const decompressed = this.#compressed && (await this.#decode(this.#compressed));
    const bytes = new BodyBytes(this.#held).whole;
    const decoded = decompressed ?? { isRead: true, plain: withoutByteOrderMark(bytes) };
    if (this.#passing) return this.#read(bytes, decoded);
    const refused = this.#keyRefused(decoded.plain, undefined);
    if (refused !== null) return refused;
    const verdict = await this.#deps.inspect(this.#deps.head.status, decoded.plain);
    if (verdict === null) return this.#read(bytes, decoded);
    if (verdict.show !== null) this.#answer(bytes, decoded.plain, undefined, verdict.show);
    return verdict.ending;
  }

  #read(bytes: Buffer, { isRead, plain }: Decoded): Ending {
    const { head, exchange, reader } = this.#deps;
    const answer = head.status < 300 && isRead ? reader.end() : undefined;
    this.#deps.onTerms(answer ?? null);
    const refused = answer?.error === undefined || this.#passing ? null : this.#keyRefused(plain, answer.error);
    if (refused !== null) return refused;
    if (this.#passing) exchange.end();
    else this.#answer(bytes, plain, answer, unchangedAnswer);
    if (head.status >= 300) return { kind: "status", status: head.status };
    return wholeEnding(answer, this.#bytes, this.#deps.ranMs());
  }

  /** Withholds an answer that refuses the key of this proxy, and returns its ending; null for any other answer. */
  #keyRefused(plain: Buffer | undefined, error: StatedError | undefined): Ending | null {
    const { exchange, keyRefusal } = this.#deps;
    const ending = plain === undefined ? null : keyRefusal(plain, error);
    if (ending !== null && !exchange.clientGone) exchange.refuse(keyRefused);
    return ending;
  }

  broken(reason: string, refusal: Refusal): Ending {
    const { exchange, head } = this.#deps;
    if (exchange.status !== null) exchange.breakOff();
    else if (!exchange.clientGone) exchange.refuse(refusal);
    return head.status >= 300 ? { kind: "status", status: head.status } : { kind: "unknown", reason };
  }

  /**
   * Answers with the gateway's bytes unless `show` or the mask changes them. `plain`: the decoded body; undefined if it
   * cannot be decoded.
   */
  #answer(bytes: Buffer, plain: Buffer | undefined, answer: ModelAnswer | undefined, show: AnswerChange): void {
    const { exchange, head, headers, mask } = this.#deps;
    const masked = plain === undefined ? bytes : mask(show(plain));
    const changed = masked !== plain && plain !== undefined;
    const body = changed ? masked : bytes;
    const kept = headers.filter(([name]) => !isNamed(name, "content-length"));
    const sent = changed ? kept.filter(([name]) => !isNamed(name, "content-encoding")) : kept;
    if (answer !== undefined) sent.push(...this.#deps.costHeaders(answer));
    exchange.answer(head.status, sent, body);
  }

  /** Stops holding. Passes on the bytes that have arrived, and later bytes as they arrive. */
  #pass(): void {
    const { exchange, head, headers } = this.#deps;
    this.#passing = true;
    exchange.begin(head.status, headers);
    passOn(this.#deps, Buffer.concat(this.#held));
    this.#held = [];
  }

  /** Decodes the answer and passes it to the reader. */
  async #decode(compressed: KeptBytes): Promise<Decoded> {
    const bytes = compressed.whole();
    if (bytes === undefined) return { isRead: false, plain: undefined };
    const kept = this.#passing ? undefined : new KeptBytes();
    const isRead = await decodeInto(
      bytes,
      this.#deps.head.header("content-encoding") ?? "",
      decodedBytesMax,
      (piece) => {
        this.#deps.reader.push(piece);
        kept?.push(piece);
      },
    );
    const whole = isRead ? kept?.whole() : undefined;
    return { isRead, plain: whole && withoutByteOrderMark(whole) };
  }
}

function isNamed(name: string, lower: string): boolean {
  return name.length === lower.length && name.toLowerCase() === lower;
}

/** Replacement for a secret or a private value. */
export const hidden = "<hidden>";

/** Hides a secret in data from the gateway. */
export interface Mask {
  /** Replaces every occurrence of the secret in bytes. Returns the same object if there is none. */
  (bytes: Buffer): Buffer;
  /** Returns true if a text may contain the secret. Fast, but also returns true for some texts without it. */
  mayFindIn(text: string): boolean;
}

/** Replaces the secret in the values of headers. Returns the same list if there is none. */
export function maskedHeaders(headers: HeaderList, mask: Mask): HeaderList {
  if (!headers.some(([, value]) => mask.mayFindIn(value))) return headers;
  const values = Buffer.from(headers.map(([, value]) => value).join("\n"), "latin1");
  const masked = mask(values);
  if (masked === values) return headers;
  const shown = masked.toString("latin1").split("\n");
  return headers.map(([name], index) => [name, shown[index] ?? ""]);
}

/** Replaces the secret in text from the gateway. */
export function maskedText(text: string, mask: Mask): string {
  if (!mask.mayFindIn(text)) return text;
  const bytes = Buffer.from(text);
  const masked = mask(bytes);
  return masked === bytes ? text : masked.toString();
}

/** Minimum length of a base64 form to search for. A shorter form may match other text by chance. */
const base64CharsMin = 12;

/**
 * Creates a mask for a secret. The mask finds the secret unencoded and in base64 (both alphabets, also inside longer
 * encoded text). It also finds each of these forms with JSON's `\u` and `\/` escapes, which it searches for only in
 * bytes with such escapes.
 */
export function createMask(secret: string): Mask {
  if (secret === "") return Object.assign((bytes: Buffer) => bytes, { mayFindIn: () => false });
  const forms = [secret, ...base64Forms(secret)];
  const needles = forms.map((form) => Buffer.from(form));
  const filter = filterFor(needles);
  const escaped = new RegExp(forms.map((form) => Array.from(form, patternFor).join("")).join("|"), "g");
  const replace = (bytes: Buffer) => {
    const plain = filter.mayBeInBytes(bytes) ? needles.reduce(withHidden, bytes) : bytes;
    if (!plain.includes(backslash) || !(plain.includes(unicodeEscape) || plain.includes(slashEscape))) return plain;
    const text = plain.toString("latin1");
    const shown = text.replace(escaped, hidden);
    return shown === text ? plain : Buffer.from(shown, "latin1");
  };
  // Only ASCII has the same codes in a text as in its bytes.
  const isAscii = /^[\0-\x7f]*$/.test(secret);
  return Object.assign(replace, {
    mayFindIn: (text: string) => !isAscii || text.includes("\\") || filter.mayBeInText(text),
  });
}

const backslash = 0x5c;
const unicodeEscape = Buffer.from(String.raw`\u`);
const slashEscape = Buffer.from(String.raw`\/`);

/** Fast checks for needles. They never miss an ASCII needle, but may also return true without one. */
interface Filter {
  mayBeInBytes(bytes: Buffer): boolean;
  mayBeInText(text: string): boolean;
}

/**
 * Creates a filter. The filter samples groups of four bytes or characters, spaced so that every needle contains a whole
 * sampled group. It compares their hashes with the hashes of all groups of four in the needles.
 */
function filterFor(needles: readonly Buffer[]): Filter {
  const step = Math.min(...needles.map(({ length }) => length)) - 3;
  if (step < 1) return { mayBeInBytes: () => true, mayBeInText: () => true };
  const seen = new Uint8Array(1 << 16);
  const hash = (group: number) => Math.imul(group, 0x9e3779b1) >>> 16;
  const isSeen = (group: number) => seen[hash(group)] === 1;
  for (const needle of needles) for (let at = 0; at + 4 <= needle.length; at++) seen[hash(needle.readInt32LE(at))] = 1;
  return {
    mayBeInBytes(bytes) {
      for (let at = 0; at + 4 <= bytes.length; at += step) if (isSeen(bytes.readInt32LE(at))) return true;
      return false;
    },
    mayBeInText(text) {
      for (let at = 0; at + 4 <= text.length; at += step) if (isSeen(groupAt(text, at))) return true;
      return false;
    },
  };
}

/** Returns the same number as `readInt32LE` for the bytes of ASCII characters. */
function groupAt(text: string, at: number): number {
  const last = text.charCodeAt(at + 3) << 24;
  return text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8) | (text.charCodeAt(at + 2) << 16) | last;
}

function withHidden(bytes: Buffer, needle: Buffer): Buffer {
  let found = bytes.indexOf(needle);
  if (found === -1) return bytes;
  const pieces: Buffer[] = [];
  let from = 0;
  while (found !== -1) {
    pieces.push(bytes.subarray(from, found), Buffer.from(hidden));
    from = found + needle.length;
    found = bytes.indexOf(needle, from);
  }
  pieces.push(bytes.subarray(from));
  return Buffer.concat(pieces);
}

/**
 * Returns the base64 forms that a secret can have inside longer data, after 0, 1 or 2 other bytes. Omits the characters
 * at both ends that also encode other bytes. Omits forms that are too short to search for.
 */
function base64Forms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const forms = [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((whole.length * 8) / 6)];
    return [whole.toString("base64").slice(from, to), whole.toString("base64url").slice(from, to)];
  });
  return [...new Set(forms)].filter((form) => form.length >= base64CharsMin);
}

/**
 * Returns a regular expression for a character, plain or escaped. Allows several backslashes, because JSON inside a
 * JSON string repeats them.
 */
function patternFor(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = Array.from(code.toString(16).padStart(4, "0"), (digit) =>
    /\d/.test(digit) ? digit : `[${digit}${digit.toUpperCase()}]`,
  ).join("");
  const slash = char === "/" ? String.raw`|\\{1,8}/` : "";
  return String.raw`(?:\x${code.toString(16).padStart(2, "0")}|\\{1,8}u${hex}${slash})`;
}
