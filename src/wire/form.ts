import type { FormListener, FormPart } from "./multipart.ts";
import { ambiguousField, invalid, modelFault, type ModelRequestResult } from "./model-request.ts";
import type { RequestFields } from "./request-fields.ts";
import type { Refusal } from "../core/refusals.ts";

/** What the first bytes of a form said, before it is priced. */
export interface FormHead {
  /** Complete fields that are no files, the first of each name; null for a value too long to be looked at. */
  readonly values: ReadonlyMap<string, string | null>;
  /** Names of all parts in their order, files too. */
  readonly names: readonly string[];
  /** Whether more is to come than was seen. */
  readonly isOpen: boolean;
  /** Whether it is written as every reader reads it. */
  readonly isClear: boolean;
  /** Bytes that were seen. */
  readonly bytes: number;
}

/** How the form of a kind of request is read. */
export interface FormReading {
  readonly fields: RequestFields;
  read(form: FormHead): ModelRequestResult;
}

/** The name under which a request is written down whose model did not come with its first bytes. */
export const unnamedModel = "unnamed";

/** The model of a form, `unnamed` where it has not come; or what is wrong with its fields. */
export function modelOf(form: FormHead, fields: RequestFields): { readonly ok: true; readonly model: string } | { readonly ok: false; readonly refusal: Refusal } {
  const ambiguous = ambiguousField(form.names.filter((name) => !fields.repeats(name)), fields);
  if (ambiguous !== undefined) return ambiguous;
  const model = form.values.get("model");
  if (model === undefined && form.isOpen) return { ok: true, model: unnamedModel };
  if (model === undefined && !form.isClear) return { ok: true, model: unnamedModel };
  const fault = modelFault(model);
  return fault ?? { ok: true, model: model ?? unnamedModel };
}

/** Names of what may add to the prompt without being seen: unknown parts, and what is still to come. */
export function unshown(form: FormHead, fields: RequestFields): string[] {
  const unknown = form.names.filter((name) => fields.meaningOf(name) === "context" && !name.endsWith("[]"));
  return form.isOpen ? [...unknown, "form"] : unknown;
}

/** Keeps what a form says while it passes; its first bytes for the price, the names of all its parts to the end. */
export class FormWatch implements FormListener {
  readonly #fields: RequestFields;
  readonly #values = new Map<string, string | null>();
  readonly #names: string[] = [];
  #hasFile = false;
  #isClear = true;
  #sealed: { readonly isFirm: boolean; readonly refuse: (refusal: Refusal) => void } | undefined;

  constructor(fields: RequestFields) {
    this.#fields = fields;
  }

  /** Whether the model and the beginning of a file have come: what prices depend on is to stand before files. */
  get isEnough(): boolean {
    return !this.#isClear || (this.#hasFile && this.#values.has("model"));
  }

  head(seen: { readonly isOpen: boolean; readonly bytes: number }): FormHead {
    return { values: new Map(this.#values), names: [...this.#names], isClear: this.#isClear, ...seen };
  }

  /**
   * The request is priced: from now on a second field of a name that prices depend on is refused, and with `isFirm` a first
   * one too, which could make it dearer than what is held.
   */
  seal(isFirm: boolean, refuse: (refusal: Refusal) => void): void {
    this.#sealed = { isFirm, refuse };
  }

  part({ name, isFile }: FormPart): void {
    this.#hasFile ||= isFile;
    const priced = this.#fields.pricedTwin(name);
    if (this.#sealed !== undefined && priced !== undefined && !this.#fields.repeats(name)) this.#late(name, priced, this.#sealed);
    if (this.#sealed === undefined || priced !== undefined) this.#names.push(name);
  }

  field(name: string, value: string | null): void {
    if (this.#sealed === undefined && !this.#values.has(name)) this.#values.set(name, value);
  }

  unclear(): void {
    this.#isClear = false;
    if (this.#sealed?.isFirm === true) this.#sealed.refuse(invalid(null, "the form can be read in several ways, so nothing bounds what it costs").refusal);
  }

  #late(name: string, priced: string, { isFirm, refuse }: { readonly isFirm: boolean; readonly refuse: (refusal: Refusal) => void }): void {
    if (this.#names.includes(name)) refuse(invalid(name, `'${name}' is given twice`).refusal);
    else if (name !== priced) refuse(invalid(priced, `'${name}' must be written '${priced}'`).refusal);
    else if (isFirm) refuse(sendBeforeFile(name));
  }
}

/** For a field that came, or may come, too late for its price. */
export function sendBeforeFile(name: string): Refusal {
  return invalid(name, `send '${name}' before the file: the price, this key's budget or its models ask for it before the file passes`).refusal;
}
