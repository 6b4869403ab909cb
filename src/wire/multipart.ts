/** Part of a form. The value of a file may have any bytes. */
export interface FormPart {
  readonly name: string;
  readonly isFile: boolean;
  readonly value: Buffer;
}

const headersBytesMax = 8 * 1024;
/** Largest number of parts. Clients send far fewer, and reading more would delay other requests. */
const partsMax = 1000;
const lineEnd = Buffer.from("\r\n");
const headersEnd = Buffer.from("\r\n\r\n");
const disposition =
  /^form-data; *name="([^"\\\r\n]*)"((?:; *filename(?:\*=[^;"\s]+|=(?:"(?:[^"\\\r\n]|\\.)*"|[^;"\s]+)))*)$/i;
const usualType =
  /^multipart\/form-data(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*;[ \t]*boundary=("?)([\w'()+\-./:=?]{1,70})\1(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*$/i;

/**
 * Returns the boundary in the content type of a multipart form; undefined if it is missing or has an unusual syntax, in
 * which another reader could find another boundary.
 */
export function boundaryOf(contentType: string): string | undefined {
  const [, , boundary] = usualType.exec(contentType) ?? [];
  return boundary;
}

/** Returns the content type of a form with a boundary that `boundaryOf` has read. */
export function formType(boundary: string): string {
  return `multipart/form-data; boundary=${/^[\w'+\-.]+$/.test(boundary) ? boundary : `"${boundary}"`}`;
}

/**
 * Returns the parts of a multipart form (RFC 7578), without copying their values. Reads only the usual syntax of
 * clients. Returns undefined if another reader could read the form differently, for example if it has a preamble,
 * folded headers, bare line feeds or no end.
 */
export function formParts(form: Buffer, boundary: string): readonly FormPart[] | undefined {
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  // The first delimiter has no line end before it.
  const first = delimiter.subarray(lineEnd.length);
  if (!form.subarray(0, first.length).equals(first)) return undefined;
  const parts: FormPart[] = [];
  for (let at = first.length; ;) {
    const after = form.toString("latin1", at, at + 2);
    if (after === "--") return isEnd(form.subarray(at + 2)) ? parts : undefined;
    if (after !== "\r\n" || parts.length === partsMax) return undefined;
    const headersAt = at + lineEnd.length;
    const end = form.subarray(0, headersAt + headersBytesMax).indexOf(headersEnd, headersAt);
    const part = end === -1 ? undefined : partOf(form.toString("utf8", headersAt, end));
    if (part === undefined) return undefined;
    const valueAt = end + headersEnd.length;
    // Begins in the empty line after the headers, because some readers accept a delimiter there.
    const valueEnd = form.indexOf(delimiter, end + lineEnd.length);
    if (valueEnd < valueAt) return undefined;
    parts.push({ ...part, value: form.subarray(valueAt, valueEnd) });
    at = valueEnd + delimiter.length;
  }
}

/** Returns true if no reader could find a part in the bytes after the last delimiter. */
function isEnd(rest: Buffer): boolean {
  return rest.length === 0 || rest.equals(lineEnd);
}

/** Headers of a part that tell a reader to decode its value. Farebox reads values as they are, in UTF-8. */
const encodedPart =
  /^content-transfer-encoding:(?! *(?:7bit|8bit|binary) *$)|^content-type:.*charset(?! *= *"?(?:utf-8|us-ascii|iso-8859-\d{1,2}|windows-125\d)"? *(?:;|$))/i;

/**
 * Reads the headers of a part; undefined if they have an unusual syntax, name no field, or state an encoding of its
 * value.
 */
function partOf(text: string): Omit<FormPart, "value"> | undefined {
  let part: Omit<FormPart, "value"> | undefined;
  for (const line of text.split("\r\n")) {
    const [, name = "", value = ""] = /^([A-Za-z-]+): *(.*)$/.exec(line) ?? [];
    if (name === "" || line.includes("\n") || encodedPart.test(line)) return undefined;
    if (name.toLowerCase() !== "content-disposition") continue;
    const [, field, file] = disposition.exec(value.trimEnd()) ?? [];
    if (part !== undefined || field === undefined) return undefined;
    part = { name: field, isFile: file !== "" };
  }
  return part;
}
