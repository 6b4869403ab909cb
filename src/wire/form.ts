import type { FormListener, FormPart } from "./multipart.ts";
import { ambiguousField, modelFault, type ModelRequestResult } from "./model-request.ts";
import { SoundLength } from "./sound-length.ts";
import { baseOf, Findings, mayNameModels, type RequestFields } from "./findings.ts";
import { userInBody } from "./headers.ts";
import { invalid, type OrRefused, type Refusal } from "../core/refusals.ts";

/** Content of the first bytes of a form, which decides the price of the request. */
export interface FormHead {
  /** Values of the first complete field of each name, without files. A value is null if it is too long to read. */
  readonly values: ReadonlyMap<string, string | null>;
  /** All complete fields that are neither files nor free. */
  readonly texts: readonly (readonly [name: string, value: string | null])[];
  /** Names of all parts in their order, including files. */
  readonly names: readonly string[];
  /** True if more bytes follow. */
  readonly isOpen: boolean;
  /** True if all readers would read the same content. */
  readonly isClear: boolean;
  /** Number of bytes that were read. */
  readonly bytes: number;
}

/** Reads the forms of one kind of request. */
export interface FormReader {
  readonly fields: RequestFields;
  /** Name of the part with a recording, whose length is measured. */
  readonly sound?: string;
  /** Name of the part with the format of the answer. */
  readonly format?: string;
  read(form: FormHead): ModelRequestResult;
}

/** Model name for a request whose first bytes do not name a model. */
export const unnamedModel = "unnamed";

/** Returns the model of a form, or `unnamedModel` if it has not arrived. Refuses ambiguous fields and invalid names. */
export function modelOf(form: FormHead, fields: RequestFields): OrRefused<{ model: string }> {
  const ambiguous = ambiguousField(
    form.names.filter((name) => !fields.mayRepeat(name)),
    fields,
  );
  if (ambiguous !== undefined) return ambiguous;
  const model = form.values.get("model");
  if (model === undefined && form.isOpen) return { ok: true, model: unnamedModel };
  if (model === undefined && !form.isClear) return { ok: true, model: unnamedModel };
  const fault = modelFault(model);
  return fault ?? { ok: true, model: model ?? unnamedModel };
}

/**
 * Returns the refusal of a form in which another reader could see another model; undefined for any other form. The
 * refusal applies to keys that may use only certain models.
 */
export function modelDoubtOf(form: FormHead): Refusal | undefined {
  if (!form.isClear) return invalid(null, "the form can be read in several ways, so it may name another model").refusal;
  const list = form.names.find((name) => name !== "model" && baseOf(name) === "model");
  return list === undefined ? undefined : invalid(list, `'${list}' can be read as 'model'`).refusal;
}

/**
 * Returns the findings about a form's parts; undefined if there are too many. If more bytes follow, the findings cover
 * the parts that may still arrive.
 */
export function formFindings(form: FormHead, fields: RequestFields): Findings | undefined {
  const findings = new Findings();
  const { model } = Object.fromEntries(form.values);
  if (typeof model === "string") findings.modelsIn("model", model);
  findings.user = userInBody({
    safety_identifier: form.values.get("safety_identifier"),
    user: form.values.get("user"),
  });
  for (const name of new Set(form.names)) {
    const meaning = fields.meaningOfPart(name);
    // Some readers treat "n[]" as "n".
    if (meaning === "priced" && fields.meaningOf(name) === undefined)
      findings.tooExpensive(name, `it can be read as '${baseOf(name)}'`);
    else
      findings.part(
        name,
        form.texts.filter(([other]) => other === name).map(([, value]) => value),
        meaning,
      );
  }
  if (form.isOpen) findings.context.push("form");
  return findings.isTooMuch ? undefined : findings;
}

/**
 * Watches a form while it is forwarded. Keeps its first fields for the price, and checks the names of all later parts.
 */
export class FormWatch implements FormListener {
  readonly #fields: RequestFields;
  readonly #values = new Map<string, string | null>();
  readonly #texts: [string, string | null][] = [];
  readonly #late = new Set<string>();
  readonly #names: string[] = [];
  readonly #sound: string | undefined;
  readonly #format: string | undefined;
  #hasLateFormat = false;
  #hasFile = false;
  #isClear = true;
  #isComplete = false;
  /** Measures the recording; undefined if there is none, or several. */
  #length: SoundLength | undefined;
  #sealed: (FormSeal & { readonly refuse: (refusal: Refusal) => void }) | undefined;

  constructor({ fields, sound, format }: Pick<FormReader, "fields" | "sound" | "format">) {
    this.#fields = fields;
    this.#sound = sound;
    this.#format = format;
  }

  /**
   * True if enough of the form has arrived to price it: the model and the start of a file. Also true if the form is
   * unclear. Fields that decide the price must come before files.
   */
  get isEnough(): boolean {
    return !this.#isClear || (this.#hasFile && this.#values.has("model"));
  }

  head(seen: { readonly isOpen: boolean; readonly bytes: number }): FormHead {
    return {
      values: new Map(this.#values),
      texts: [...this.#texts],
      names: [...this.#names],
      isClear: this.#isClear,
      ...seen,
    };
  }

  /**
   * Largest number of seconds of the recording, once the whole form has passed; undefined if the form does not bound
   * them. Called once.
   */
  soundSeconds(): number | undefined {
    return this.#isComplete ? this.#length?.end() : undefined;
  }

  /** True if the format of the answer arrived after the request was priced, or another reader may find one. */
  get hasLateFormat(): boolean {
    return this.#hasLateFormat || !this.#isClear;
  }

  /** Unknown parts that arrived after the request was priced. */
  get lateUnknown(): readonly string[] {
    return [...this.#late];
  }

  /**
   * Marks the request as priced. From then on, refuses repeated priced fields, and other fields according to `seal`.
   */
  seal(seal: FormSeal, refuse: (refusal: Refusal) => void): void {
    this.#sealed = { ...seal, refuse };
  }

  part({ name, isFile }: FormPart): void {
    if (isFile) this.#length = name === this.#sound && !this.#hasFile ? new SoundLength() : undefined;
    this.#hasFile ||= isFile;
    const priced = this.#fields.pricedFieldFor(name);
    if (this.#sealed !== undefined && baseOf(name) === this.#format) this.#hasLateFormat = true;
    if (this.#sealed !== undefined) this.#checkLate(name, priced, this.#sealed);
    if (this.#sealed === undefined || priced !== undefined) this.#names.push(name);
  }

  field(name: string, value: string | null): void {
    if (this.#sealed !== undefined) return;
    if (!this.#values.has(name)) this.#values.set(name, value);
    if (this.#fields.meaningOfPart(name) !== "free") this.#texts.push([name, value]);
  }

  file(bytes: Buffer): void {
    this.#length?.push(bytes);
  }

  complete(): void {
    this.#isComplete = true;
  }

  unclear(): void {
    this.#isClear = false;
    if (this.#sealed?.isFirm !== true && this.#sealed?.isClosed !== true) return;
    const consequence = this.#sealed.isFirm ? "its cost cannot be bounded" : "it may name another model";
    this.#sealed.refuse(invalid(null, `the form can be read in several ways, so ${consequence}`).refusal);
  }

  #checkLate(
    name: string,
    priced: string | undefined,
    { isFirm, isClosed, refuse }: FormSeal & { readonly refuse: (refusal: Refusal) => void },
  ): void {
    if (priced !== undefined && !this.#fields.mayRepeat(name)) {
      if (this.#names.includes(name)) return refuse(invalid(name, `'${name}' is given twice`).refusal);
      if (name !== priced) return refuse(invalid(priced, `'${name}' must be written '${priced}'`).refusal);
      if (isFirm) return refuse(sendBeforeFile(name));
    }
    const meaning = this.#fields.meaningOfPart(name);
    const isPricedList = meaning === "priced" && priced === undefined;
    if ((isFirm || isClosed) && isPricedList) return refuse(sendBeforeFile(name));
    if (meaning !== undefined && !mayNameModels(meaning)) return;
    if (isClosed) return refuse(sendBeforeFile(name));
    if (this.#late.size < lateMax) this.#late.add(name);
  }
}

/** Largest number of unknown parts that are recorded after the request was priced. */
const lateMax = 100;

/** Rules for fields that arrive after the request was priced. */
export interface FormSeal {
  /** True if even an unrepeated priced field is refused, because the field could raise the cost above the hold. */
  readonly isFirm: boolean;
  /** True if fields that are unknown or may name another model are refused. */
  readonly isClosed: boolean;
}

/** Returns the refusal of a field that arrives, or may arrive, too late to be priced. */
export function sendBeforeFile(name: string): Refusal {
  return invalid(
    name,
    `send '${name}' before the file: the request's price, the key's budget or its allowed models depend on it`,
  ).refusal;
}
