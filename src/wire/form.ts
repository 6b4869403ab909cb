import type { FormListener, FormPart } from "./multipart.ts";
import { ambiguousField, invalid, modelFault, type ModelRequestResult } from "./model-request.ts";
import { baseOf, Findings, mayNameModels, type RequestFields } from "./findings.ts";
import type { Refusal } from "../core/refusals.ts";

/** Content of a form's first bytes, before it is priced. */
export interface FormHead {
  /** Complete fields that are no files, the first of each name; null for a value too long to be looked at. */
  readonly values: ReadonlyMap<string, string | null>;
  /** All complete fields that are no files and are not free. */
  readonly texts: readonly (readonly [name: string, value: string | null])[];
  /** Names of all parts in their order, files too. */
  readonly names: readonly string[];
  /** True if more bytes follow. */
  readonly isOpen: boolean;
  /** True if every reader reads it alike. */
  readonly isClear: boolean;
  /** Bytes that were seen. */
  readonly bytes: number;
}

/** Reader of the forms of one kind of request. */
export interface FormReader {
  readonly fields: RequestFields;
  read(form: FormHead): ModelRequestResult;
}

/** The name under which a request is written down whose model did not come with its first bytes. */
export const unnamedModel = "unnamed";

/** The model of a form, `unnamed` where it has not come; or what is wrong with its fields. */
export function modelOf(
  form: FormHead,
  fields: RequestFields,
): { readonly ok: true; readonly model: string } | { readonly ok: false; readonly refusal: Refusal } {
  const ambiguous = ambiguousField(
    form.names.filter((name) => !fields.repeats(name)),
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
 * Returns the meaning of a form's parts; parts that still follow may add to the prompt. Undefined for too many models.
 */
export function formFindings(form: FormHead, fields: RequestFields): Findings | undefined {
  const findings = new Findings();
  const { model } = Object.fromEntries(form.values);
  if (typeof model === "string") findings.modelsIn("model", model);
  for (const name of new Set(form.names)) {
    const meaning = fields.meaningOfPart(name);
    // To some readers "n[]" is "n".
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

/** Keeps what a form says while it passes; its first bytes for the price, the names of all its parts to the end. */
export class FormWatch implements FormListener {
  readonly #fields: RequestFields;
  readonly #values = new Map<string, string | null>();
  readonly #texts: [string, string | null][] = [];
  readonly #late = new Set<string>();
  readonly #names: string[] = [];
  #hasFile = false;
  #isClear = true;
  #sealed: (FormSeal & { readonly refuse: (refusal: Refusal) => void }) | undefined;

  constructor(fields: RequestFields) {
    this.#fields = fields;
  }

  /**
   * True once the model and the beginning of a file have arrived: fields that decide the price must come before files.
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

  /** Unknown parts that came after the request was priced. */
  get lateUnknown(): readonly string[] {
    return [...this.#late];
  }

  /** The request is priced: from now on a second field of a name that prices depend on is refused, and more by the seal. */
  seal(seal: FormSeal, refuse: (refusal: Refusal) => void): void {
    this.#sealed = { ...seal, refuse };
  }

  part({ name, isFile }: FormPart): void {
    this.#hasFile ||= isFile;
    const priced = this.#fields.pricedFieldFor(name);
    if (this.#sealed !== undefined) this.#judgeLate(name, priced, this.#sealed);
    if (this.#sealed === undefined || priced !== undefined) this.#names.push(name);
  }

  field(name: string, value: string | null): void {
    if (this.#sealed !== undefined) return;
    if (!this.#values.has(name)) this.#values.set(name, value);
    if (this.#fields.meaningOfPart(name) !== "free") this.#texts.push([name, value]);
  }

  unclear(): void {
    this.#isClear = false;
    if (this.#sealed?.isFirm === true)
      this.#sealed.refuse(
        invalid(null, "the form can be read in several ways, so nothing bounds what it costs").refusal,
      );
  }

  #judgeLate(
    name: string,
    priced: string | undefined,
    { isFirm, isClosed, refuse }: FormSeal & { readonly refuse: (refusal: Refusal) => void },
  ): void {
    if (priced !== undefined && !this.#fields.repeats(name)) {
      if (this.#names.includes(name)) return refuse(invalid(name, `'${name}' is given twice`).refusal);
      if (name !== priced) return refuse(invalid(priced, `'${name}' must be written '${priced}'`).refusal);
      if (isFirm) return refuse(sendBeforeFile(name));
    }
    const meaning = this.#fields.meaningOfPart(name);
    const isPricedList = meaning === "priced" && priced === undefined;
    if (isFirm && isPricedList) return refuse(sendBeforeFile(name));
    if (meaning !== undefined && !mayNameModels(meaning)) return;
    if (isClosed) return refuse(sendBeforeFile(name));
    if (this.#late.size < lateMax) this.#late.add(name);
  }
}

/** Unknown parts that are remembered after the request was priced. */
const lateMax = 100;

/** Fields that a form may no longer send after its request was priced. */
export interface FormSeal {
  /** A first field that prices depend on, which could make it more expensive than what is held. */
  readonly isFirm: boolean;
  /** A field that may name another model, or that is not known. */
  readonly isClosed: boolean;
}

/** Refuses a field that came, or may come, too late for its price. */
export function sendBeforeFile(name: string): Refusal {
  return invalid(
    name,
    `send '${name}' before the file: the price, this key's budget or its models ask for it before the file passes`,
  ).refusal;
}
