import { laterUsage, withChoices } from "../core/several-usages.ts";
import type { Usage } from "../core/usage.ts";
import { jsonOf } from "./json.ts";
import {
  constantBytesMax,
  countsOutput,
  nothingUncountable,
  outputOf,
  type Answered,
  type AnswerTerms,
  type OutputSink,
  type AnswerOutput,
} from "./model-answer.ts";
import type { StatedError } from "../core/settlement.ts";

/** Receives the output of a stream when Farebox reads the event that contains it. */
export interface OutputListener {
  text(text: string, choice: number): void;
  /** Reports bytes that no tokenizer counts. */
  unknown(bytes: number): void;
  media(): void;
  /** Reports the latest usage of a stream that has not finished. The usage covers the output so far. */
  usage(usage: Usage): void;
  /** Reports the bytes of an event that has not ended yet; 0 after it has ended. Replaces the previous report. */
  inFlight(bytes: number): void;
}

/**
 * Largest text that Farebox keeps, in UTF-16 units plus `pieceUnits` for each piece. Further text counts by its bytes.
 */
const textUnitsMax = 16 * 1024 * 1024;
const pieceUnits = 16;
/** Largest number of choices and parts. No request can ask for more. */
const partsMax = 1000;
/** Longest text that is compared with a repetition of it, in UTF-16 units. */
const comparedUnitsMax = 256 * 1024;
/**
 * Values in place of a choice's index: for constants in the envelope of events, and for output of an unknown choice.
 */
const ofEnvelope = -1;
const ofUnknownChoice = -2;

/** Identifies a text of the stream: the index of a choice, or the path of a part. */
type PartKey = string | number;

/** A report of text. */
export interface TextReport {
  readonly text: string;
  readonly key: PartKey;
  readonly choice: number;
}

/** Text of a choice or part. `pieces`: text that is kept; `length`: units of the whole text. */
interface KeptText {
  pieces: string[];
  length: number;
  /** Units of the kept pieces, now and when the stream stated its latest usage. */
  kept: number;
  covered: number;
}

/** Output of a stream: texts by choice or part, and the bytes of output that no tokenizer counts. */
export class StreamOutput {
  readonly #texts = new Map<PartKey, KeptText>();
  /** Largest size so far of each repeated member, in bytes. */
  readonly #repeated = new Map<string, number>();
  /** Members of the envelope that were the same in each event so far; undefined for a member that has changed. */
  readonly #constants = new Map<string, { readonly value: string; bytes: number } | undefined>();
  readonly #listener: OutputListener | undefined;
  readonly #uncountable = { ...nothingUncountable, media: 0 };
  /** Output that the latest usage covers. */
  #covered = { amount: 0, reports: -1, unknownBytes: 0, sealedBytes: 0, media: 0 };
  /** Value of `amount` after the latest output of each choice, and when the latest usage of a choice covered it. */
  readonly #amounts = new Map<number, number>();
  readonly #coveredChoices = new Map<number, number>();
  #units = 0;
  #amount = 0;
  /** Number of reports of output, including repetitions. */
  #reports = 0;
  /** Latest report of text, and its number. */
  #textReportNumber = 0;
  #text = "";
  #key: PartKey = 0;
  #choice = 0;

  constructor(listener?: OutputListener) {
    this.#listener = listener;
  }

  /** Increases with every output. An unchanged value means that no output was added. */
  get amount(): number {
    return this.#amount;
  }

  /** Number of reports so far. */
  get reports(): number {
    return this.#reports;
  }

  /** Returns the report after the first `reports` reports; undefined unless there is one, and it is of text. */
  onlyTextAfter(reports: number): TextReport | undefined {
    if (this.#reports !== reports + 1 || this.#textReportNumber !== this.#reports) return undefined;
    return { text: this.#text, key: this.#key, choice: this.#choice };
  }

  get streamed(): AnswerOutput {
    const { unknownBytes, sealedBytes, media } = this.#uncountable;
    return outputOf(
      this.#textsFrom(() => 0),
      { unknownBytes, sealedBytes, hasMedia: media > 0 },
    );
  }

  /** True if there is no output, except members of the envelope that are the same in each event. */
  get isEmpty(): boolean {
    return [...this.#amounts.keys()].every((choice) => choice === ofEnvelope);
  }

  /**
   * Records that the output so far is covered by a usage of the whole answer. `hasOutputCount`: the usage counts
   * output.
   */
  cover(hasOutputCount: boolean): void {
    this.#cover(hasOutputCount ? this.#reports : this.#covered.reports);
  }

  /** Records that the output of a choice so far is covered by the choice's usage. */
  coverChoice(choice: number): void {
    if (this.#coveredChoices.size < partsMax || this.#coveredChoices.has(choice))
      this.#coveredChoices.set(choice, this.#amount);
    const text = this.#texts.get(choice);
    if (text !== undefined) text.covered = text.kept;
    if (this.isCovered) this.#cover(this.#covered.reports);
  }

  #cover(reports: number): void {
    const { unknownBytes, sealedBytes, media } = this.#uncountable;
    this.#covered = { amount: this.#amount, reports, unknownBytes, sealedBytes, media };
    for (const text of this.#texts.values()) text.covered = text.kept;
  }

  get isCovered(): boolean {
    if (this.#amount === this.#covered.amount) return true;
    if (this.#coveredChoices.size === 0) return false;
    const coveredAt = (choice: number) => Math.max(this.#covered.amount, this.#coveredChoices.get(choice) ?? 0);
    // Output of an unknown choice is covered only if all choices are.
    const choices = [...new Set([...this.#amounts.keys(), ...this.#coveredChoices.keys()])].filter(isChoice);
    const least = Math.min(...choices.map(coveredAt));
    return [...this.#amounts].every(([choice, amount]) => amount <= (isChoice(choice) ? coveredAt(choice) : least));
  }

  /** True if nothing, not even a repetition, was reported after the latest call of `cover`. */
  get isUntouched(): boolean {
    return this.#reports === this.#covered.reports;
  }

  /** Output after the latest call of `cover`. */
  get uncovered(): AnswerOutput {
    const { unknownBytes, sealedBytes, media } = this.#uncountable;
    const { unknownBytes: unknown, sealedBytes: sealed, media: covered } = this.#covered;
    return outputOf(
      this.#textsFrom((text) => text.covered),
      { unknownBytes: unknownBytes - unknown, sealedBytes: sealedBytes - sealed, hasMedia: media > covered },
    );
  }

  #textsFrom(start: (text: KeptText) => number): readonly string[] {
    return [...this.#texts.values()]
      .filter((text) => text.kept > start(text))
      .map((text) => joined(text).slice(start(text)));
  }

  /** Records output of a choice. */
  #add(amount: number, choice: number): void {
    if (amount === 0) return;
    this.#amount += amount;
    const isKept = this.#amounts.size < partsMax || this.#amounts.has(choice);
    this.#amounts.set(isKept ? choice : ofUnknownChoice, this.#amount);
  }

  /** Adds to the text of a part. */
  text(text: string, key: PartKey, choice: number): void {
    this.#textReportNumber = ++this.#reports;
    [this.#text, this.#key, this.#choice] = [text, key, choice];
    this.#add(1, choice);
    this.#listener?.text(text, choice);
    let kept = this.#texts.get(key);
    if (kept === undefined && this.#texts.size < partsMax)
      this.#texts.set(key, (kept = { pieces: [], length: 0, kept: 0, covered: 0 }));
    if (kept !== undefined) kept.length += text.length;
    if (kept !== undefined && this.#units + text.length + pieceUnits <= textUnitsMax) {
      this.#units += text.length + pieceUnits;
      kept.kept += text.length;
      kept.pieces.push(text);
    } else {
      this.#uncountable.unknownBytes += Buffer.byteLength(text);
    }
  }

  /**
   * Adds the new end of a part's text, given the whole text. `isSure` is false if the text may belong to another part.
   * In that case, compares the text with the part's text so far.
   */
  wholeText(text: string, key: PartKey, choice: number, isSure: boolean): void {
    this.#reports++;
    const length = this.#texts.get(key)?.length ?? 0;
    const known = isSure ? "" : this.textAt(key);
    if (!isSure && length > 0 && (known === "" || !text.startsWith(known))) {
      if (!known.includes(text)) this.text(text, key, choice);
    } else if (text.length > length) {
      this.text(length === 0 ? text : copyOf(text.slice(length)), key, choice);
    }
  }

  /** Returns the text of a part; empty if it is too long to be compared repeatedly. */
  textAt(key: PartKey): string {
    const kept = this.#texts.get(key);
    return kept === undefined || kept.length > comparedUnitsMax ? "" : joined(kept);
  }

  unknown(bytes: number, choice: number = ofUnknownChoice): void {
    this.#reports++;
    this.#add(bytes, choice);
    this.#uncountable.unknownBytes += bytes;
    if (bytes > 0) this.#listener?.unknown(bytes);
  }

  sealed(bytes: number, choice: number = ofUnknownChoice): void {
    this.#reports++;
    this.#add(bytes, choice);
    this.#uncountable.sealedBytes += bytes;
    this.#listener?.unknown(bytes);
  }

  media(choice: number = ofUnknownChoice): void {
    this.#reports++;
    this.#add(1, choice);
    this.#uncountable.media++;
    this.#listener?.media();
  }

  /** Counts a member that a later event may repeat. If a repetition is longer, only the additional bytes count. */
  repeated(kind: "unknown" | "sealed", bytes: number, at: string): void {
    this.#reports++;
    const key = `${kind} ${at}`;
    const before = this.#repeated.get(key) ?? 0;
    if (bytes <= before) return;
    if (before > 0 || this.#repeated.size < partsMax) this.#repeated.set(key, bytes);
    this[kind](bytes - before);
  }

  /**
   * Counts an unknown member of the envelope. A member that is the same in each event is not text, so it counts once.
   * If it changes, all its earlier values count too.
   */
  envelope(bytes: number, at: string, value: unknown): void {
    this.#reports++;
    const constant = this.#constants.get(at);
    const text = bytes > constantBytesMax ? undefined : typeof value === "string" ? value : jsonOf(value);
    if (constant !== undefined && constant.value === text) {
      constant.bytes += bytes;
      return;
    }
    const isFirst = !this.#constants.has(at);
    if (!isFirst || this.#constants.size < partsMax) {
      this.#constants.set(at, isFirst && text !== undefined ? { value: text, bytes: 0 } : undefined);
    }
    const isConstant = isFirst && text !== undefined;
    this.unknown(bytes + (constant?.bytes ?? 0), isConstant ? ofEnvelope : ofUnknownChoice);
  }
}

function isChoice(choice: number): boolean {
  return choice >= 0;
}

/** Returns a copy of a part of a text. The part itself would keep the whole text in memory. */
function copyOf(part: string): string {
  return JSON.parse(JSON.stringify(part)) as string;
}

/** Joins the pieces of a text, and returns it. */
function joined(text: KeptText): string {
  if (text.pieces.length > 1) text.pieces = [text.pieces.join("")];
  return text.pieces[0] ?? "";
}

/** Receives the output of deltas, and adds it to the part of the latest call of `at`. */
export class DeltaSink implements OutputSink {
  readonly #output: StreamOutput;
  #key: PartKey = 0;
  #choice = 0;

  constructor(output: StreamOutput) {
    this.#output = output;
  }

  at(key: PartKey, choice: number): this {
    this.#key = key;
    this.#choice = choice;
    return this;
  }

  text(text: string): void {
    this.#output.text(text, this.#key, this.#choice);
  }

  unknown(bytes: number): void {
    this.#output.unknown(bytes, this.#choice);
  }

  sealed(bytes: number): void {
    this.#output.sealed(bytes, this.#choice);
  }

  media(): void {
    this.#output.media(this.#choice);
  }
}

/** Receives the envelope of a stream's events: their members outside choices and items. */
export class EnvelopeSink extends DeltaSink {
  readonly #output: StreamOutput;

  constructor(output: StreamOutput) {
    super(output);
    this.#output = output;
  }

  override unknown(bytes: number, at = "", value: unknown = null): void {
    this.#output.envelope(bytes, at, value);
  }
}

/**
 * Content of a stream so far. Texts are joined by choice or part, because tokens are counted on whole texts. `usage` is
 * undefined if the stream broke, or if output followed the usage.
 */
export interface StreamAnswer extends Answered, AnswerTerms {
  /** True if an event states that the stream is complete. */
  readonly finished: boolean;
  /** True if an event states that the model failed. Then only the text so far can be billed. */
  readonly failed?: boolean;
  /** Error that an event states; absent if there is none, or if a usage covers the whole stream nevertheless. */
  readonly error?: StatedError;
}

/** Largest number of choices whose own usages are added up. The output of further choices is counted. */
const choicesMax = 128;

const noChoices: readonly (readonly [number, Usage])[] = [];

/** Merges the usages that the events of a stream state. */
export class StreamUsage {
  readonly #output: StreamOutput;
  readonly #listener: OutputListener | undefined;
  /** Latest usage of the whole answer, and of each choice. */
  #whole: Usage | undefined;
  readonly #choices = new Map<number, Usage>();
  #usage: Usage | undefined;
  #isFinal = false;
  /** True if the latest usage covers the output before it, whatever that is. */
  coversAny = false;

  constructor(output: StreamOutput, listener: OutputListener | undefined) {
    this.#output = output;
    this.#listener = listener;
  }

  /**
   * Adds the usages that an event states for the whole answer and for choices by their index, after the event's output.
   * `isFinal`: the stream has finished.
   */
  add(whole: Usage | undefined, isFinal: boolean, ofChoices: readonly (readonly [number, Usage])[] = noChoices): void {
    if (whole === undefined && ofChoices.length === 0) return;
    this.#whole = laterUsage(this.#whole, whole);
    for (const [index, stated] of ofChoices)
      if (this.#choices.size < choicesMax || this.#choices.has(index))
        this.#choices.set(index, laterUsage(this.#choices.get(index), stated) ?? stated);
    const usage = withChoices(this.#whole, [...this.#choices.values()]);
    this.#usage = usage;
    if (usage === undefined) return;
    const coversWhole = whole !== undefined && this.#isCredible(whole);
    const counts = whole !== undefined && countsOutput(whole);
    this.coversAny = counts && whole.unstated !== "completion";
    const covered = ofChoices.filter(([index, stated]) => this.#choices.has(index) && this.#isCredible(stated));
    if (coversWhole) this.#output.cover(counts);
    for (const [index] of covered) this.#output.coverChoice(index);
    if (coversWhole || covered.length > 0) this.#isFinal = isFinal;
    if (!isFinal) this.#listener?.usage(usage);
  }

  /** True if the usage covers the output so far. */
  get coversAll(): boolean {
    const usage = this.#usage;
    return usage?.unstated === undefined && usage !== undefined && this.#output.isCovered && this.#isCredible(usage);
  }

  /** Returns the usage at the end of the stream. `isWhole`: the stream has finished. */
  stated(isWhole: boolean): Pick<StreamAnswer, "usage" | "soFar"> {
    const usage = this.#usage;
    if (usage === undefined) return { usage };
    if (isWhole && this.coversAll) return { usage };
    const isCredible = this.#isCredible(usage);
    const later = isCredible ? this.#output.uncovered : this.#output.streamed;
    return { usage: undefined, soFar: { usage, later, isFinal: this.#isFinal && isCredible } };
  }

  /** Returns true if a usage can be that of the output so far. */
  #isCredible(usage: Usage): boolean {
    return usage.unstated !== "completion" && (this.#output.isEmpty || countsOutput(usage));
  }
}
