/** Part of a form. The value of a file may have any bytes. */
export interface FormPart {
  readonly name: string;
  readonly isFile: boolean;
  readonly value: Buffer;
}

const headersBytesMax = 8 * 1024;
/** Largest number of parts. Clients send far fewer, and reading more would delay other requests. */
const partsMax = 1000;
/** Largest number of bytes after the last delimiter. Clients send at most two line ends. */
const restBytesMax = 16;
const lineEnd = Buffer.from("\r\n");
const headersEnd = Buffer.from("\r\n\r\n");
/** Charsets that write ASCII text, and so numbers and usual names of models, with the same bytes as UTF-8. */
const charset = '"?(?:utf-?8|(?:us-)?ascii|iso-8859-\\d{1,2}|latin1|windows-125\\d)"?';
const charsetParameter = `(?:[ \\t]*;[ \\t]*charset=${charset})?`;
const usualType = new RegExp(
  `^multipart/form-data${charsetParameter}[ \\t]*;[ \\t]*boundary=("?)([\\w!#$%&'()*+\\-./:=?^\`|~]{1,70})\\1${charsetParameter}[ \\t]*;?[ \\t]*$`,
  "i",
);

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
 * clients. Returns undefined if another reader could read the form differently, for example if it has text before its
 * first part, folded headers, bare line feeds or no end.
 */
export function formParts(form: Buffer, boundary: string): readonly FormPart[] | undefined {
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  // The first delimiter has no line end before it, except from some older clients.
  const first = delimiter.subarray(lineEnd.length);
  const start = form.subarray(0, lineEnd.length).equals(lineEnd) ? lineEnd.length : 0;
  if (!form.subarray(start, start + first.length).equals(first)) return undefined;
  const parts: FormPart[] = [];
  for (let at = start + first.length; ;) {
    const after = form.toString("latin1", at, at + 2);
    if (after === "--") return isEnd(form.subarray(at + 2)) ? parts : undefined;
    if (after !== "\r\n" || parts.length === partsMax) return undefined;
    const headersAt = at + lineEnd.length;
    const end = form.subarray(0, headersAt + headersBytesMax).indexOf(headersEnd, headersAt);
    const part = end === -1 ? undefined : partOf(form.toString("utf8", headersAt, end));
    if (part === undefined) return undefined;
    const valueAt = end + headersEnd.length;
    // The search begins at the empty line after the headers, because some readers accept a delimiter there.
    const valueEnd = form.indexOf(delimiter, end + lineEnd.length);
    if (valueEnd < valueAt) return undefined;
    parts.push({ ...part, value: form.subarray(valueAt, valueEnd) });
    at = valueEnd + delimiter.length;
  }
}

/** Returns true if no reader could find a part in the bytes after the last delimiter. */
function isEnd(rest: Buffer): boolean {
  return rest.length <= restBytesMax && rest.toString("latin1").trim() === "";
}

/** Header that tells a reader to decode the value of a part. Farebox reads values as they are. */
const encodedValue = /^content-transfer-encoding:(?!\s*(?:7bit|8bit|binary)\s*$)/i;
/** Header with a charset in which a field may have another value. */
const encodedText = new RegExp(`^content-type:.*charset(?! *= *${charset} *(?:;|$))`, "i");

/**
 * Reads the headers of a part; undefined if they have an unusual syntax, name no field, or state an encoding of its
 * value.
 */
function partOf(text: string): Omit<FormPart, "value"> | undefined {
  let part: Omit<FormPart, "value"> | undefined;
  let isEncoded = false;
  for (const line of text.split("\r\n")) {
    const [, name, value = ""] = /^([A-Za-z\d-]+):[ \t]*(.*)$/.exec(line) ?? [];
    if (name === undefined || line.includes("\n") || encodedValue.test(line)) return undefined;
    isEncoded ||= encodedText.test(line);
    if (name.toLowerCase() !== "content-disposition") continue;
    if (part !== undefined) return undefined;
    part = dispositionOf(value.trimEnd());
    if (part === undefined) return undefined;
  }
  return isEncoded && part?.isFile === false ? undefined : part;
}

/**
 * Matches a parameter of a disposition. A value with an escaped quote must not contain a semicolon, because a reader
 * that does not know escapes would find another parameter after the semicolon.
 */
const parameter =
  /[ \t]*;[ \t]*(name|filename\*?|size|(?:creation|modification|read)-date)=(?:"([^"\\\r\n]*|(?:[^"\\;\r\n]|\\[^;\r\n])*)"|([^;"\s]+))/iy;

/** Reads the name of a part, and whether it is a file. Accepts names without quotes, as .NET writes them. */
function dispositionOf(text: string): Omit<FormPart, "value"> | undefined {
  const type = "form-data";
  if (text.slice(0, type.length).toLowerCase() !== type) return undefined;
  const given = new Map<string, string>();
  for (let at = type.length; at < text.length; at = parameter.lastIndex) {
    parameter.lastIndex = at;
    const [, written = "", quoted, bare = ""] = parameter.exec(text) ?? [];
    const name = written.toLowerCase();
    if (name === "" || given.has(name)) return undefined;
    if (name === "name" && quoted === undefined && !token.test(bare)) return undefined;
    given.set(name, quoted ?? bare);
  }
  const name = given.get("name");
  // Some readers decode names with "=?".
  if (name === undefined || name.includes("\\") || name.includes("=?")) return undefined;
  return { name, isFile: given.has("filename") || given.has("filename*") };
}

const token = /^[\w!#$%&'*+\-.^`|~]+$/;
