import { invalid, type OrRefused, type Refused } from "../core/refusals.ts";
import { baseOf, Findings, userInBody, type RequestFields } from "./findings.ts";
import { ambiguousField, modelFault, tooManyNames } from "./model-request.ts";
import { boundaryOf, formParts, type FormPart } from "./multipart.ts";
import { SoundLength } from "./sound-length.ts";

/** Longest value of a field that is read, in bytes. */
const valueBytesMax = 64 * 1024;
/** Largest size of all texts that may name models, in bytes. Searching more would delay other requests. */
const textBytesMax = 256 * 1024;
/** Number of bytes of a file that are read at once. Reading them takes about a millisecond. */
const stepBytes = 256 * 1024;

/** Multipart form that all readers read alike. */
export class Form {
  readonly parts: readonly FormPart[];

  constructor(parts: readonly FormPart[]) {
    this.parts = parts;
  }

  /** Returns the value of the first field of a name: null if it is too long to read; undefined if there is none. */
  value(name: string): string | null | undefined {
    const field = this.parts.find((part) => part.name === name && !part.isFile);
    return field && textOf(field, valueBytesMax);
  }

  /** Values of all fields; none if they are too long to be read. */
  get texts(): readonly Buffer[] {
    return this.tooLong === undefined ? this.#fields.map(({ value }) => value) : [];
  }

  /** Refusal of fields that are too long to be read, alone or together; undefined if there is none. */
  get tooLong(): Refused | undefined {
    const long = this.#fields.find(({ value }) => value.length > valueBytesMax);
    if (long !== undefined) return invalid(long.name, `'${long.name}' is too long to read`);
    const bytes = this.#fields.reduce((sum, { value }) => sum + value.length, 0);
    return bytes > textBytesMax ? invalid(null, "the form's fields are too long to read") : undefined;
  }

  get #fields(): readonly FormPart[] {
    return this.parts.filter(({ isFile }) => !isFile);
  }

  /**
   * Returns the number of bytes that may count as text: all names, the values of fields, and files whose names are not
   * in `media`. No file counts if `media` is missing.
   */
  textBytes(media?: ReadonlySet<string>): number {
    const isText = ({ name, isFile }: FormPart) => !isFile || media?.has(baseOf(name)) === false;
    return this.parts.reduce((sum, part) => sum + part.name.length + (isText(part) ? part.value.length : 0), 0);
  }

  /**
   * Returns the largest number of seconds of the recording in a file; undefined if its bytes do not bound them, or if
   * another part may be the recording. Reads a large file in steps, so that other requests do not wait.
   */
  async secondsOf(name: string): Promise<number | undefined> {
    const [file, ...others] = this.parts.filter((part) => part.isFile || baseOf(part.name) === name);
    if (file === undefined || others.length > 0 || file.name !== name || !file.isFile) return undefined;
    const sound = new SoundLength();
    for (let at = 0; at < file.value.length; at += stepBytes) {
      if (at > 0) await new Promise(setImmediate);
      sound.push(file.value.subarray(at, at + stepBytes));
    }
    return sound.end();
  }
}

function textOf({ value }: FormPart, bytesMax: number): string | null {
  return value.length > bytesMax ? null : value.toString("utf8");
}

/** Reads a form. Returns undefined if another reader could read it differently. */
export function readForm(bytes: Buffer, contentType: string): Form | undefined {
  const boundary = boundaryOf(contentType);
  const parts = boundary === undefined ? undefined : formParts(bytes, boundary);
  return parts && new Form(parts);
}

/** Inspected form. */
interface InspectedForm {
  readonly form: Form;
  readonly model: string;
  readonly findings: Findings;
}

/** Inspects a form that names a model. Refuses a form that the gateway might read differently. */
export function inspectForm(form: Form | undefined, fields: RequestFields): OrRefused<InspectedForm> {
  if (form === undefined) return invalid(null, `${unclearForm}; send it as common HTTP clients do`);
  const ambiguous = ambiguousPart(form, fields);
  if (ambiguous !== undefined) return ambiguous;
  const model = form.value("model");
  const fault = modelFault(model);
  if (fault !== undefined) return fault;
  const findings = formFindings(form, fields);
  return findings.hasTooMany ? tooManyNames : { ok: true, form, model: String(model), findings };
}

/** Reason why a form cannot be read. */
export const unclearForm = "the form can be read in several ways";

/**
 * Returns the refusal of a field that decides the price and is repeated, a file, or under another name; undefined if
 * there is none.
 */
export function ambiguousPart({ parts }: Form, fields: RequestFields): Refused | undefined {
  for (const { name, isFile } of parts) {
    const base = baseOf(name);
    const field = fields.fieldReadAs(base);
    if (field === undefined) continue;
    if (isFile) return invalid(field, `'${name}' must be a field, not a file`);
    // Some readers treat "n[]" as "n".
    if (base !== field || (name !== base && fields.meaningOf(field) === "priced"))
      return invalid(field, `'${name}' must be written '${field}'`);
  }
  const names = parts.map(({ name }) => name).filter((name) => !fields.mayRepeat(name));
  return ambiguousField(names, fields);
}

/** Returns the findings about a form's parts. */
export function formFindings(form: Form, fields: RequestFields): Findings {
  const findings = new Findings();
  const model = form.value("model");
  if (typeof model === "string") findings.modelsIn("model", model);
  findings.user = userInBody({ safety_identifier: form.value("safety_identifier"), user: form.value("user") });
  const partsByName = new Map<string, FormPart[]>();
  let bytes = 0;
  for (const part of form.parts) {
    const meaning = fields.meaningOfPart(part.name);
    if (meaning === "free" || meaning === "priced") continue;
    partsByName.set(part.name, [...(partsByName.get(part.name) ?? []), part]);
    if (!part.isFile) bytes += part.value.length;
  }
  const bytesMax = bytes > textBytesMax ? 0 : valueBytesMax;
  for (const [name, parts] of partsByName)
    findings.part(
      name,
      parts.flatMap((part) => (part.isFile ? [] : [textOf(part, bytesMax)])),
      fields.meaningOfPart(name),
    );
  return findings;
}
