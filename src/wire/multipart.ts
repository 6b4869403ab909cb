/** Part of a form. */
export interface FormPart {
  readonly name: string;
  readonly isFile: boolean;
}

/** Receives the parts of a form while the form is forwarded. */
export interface FormListener {
  /** Called when a part begins. */
  part(part: FormPart): void;
  /** Called with the next bytes of a file. */
  file?(bytes: Buffer): void;
  /** Called after the last part. No more calls follow. */
  complete?(): void;
  /** Called when a field is complete. The value is null if it is too long to keep. */
  field(name: string, value: string | null): void;
  /** Called when readers could disagree on the form's content. No more calls follow. */
  unclear(): void;
}

const headersBytesMax = 8 * 1024;
const valueBytesMax = 64 * 1024;
const lineEnd = Buffer.from("\r\n");
const headersEnd = Buffer.from("\r\n\r\n");
const disposition = /^form-data; *name="([^"\\\r\n]*)"(; *filename\*?=[^\r\n]*)?$/i;

/**
 * Returns the boundary in the content type of a multipart form; undefined if it is missing or has an unusual syntax.
 */
export function boundaryOf(contentType: string): string | undefined {
  const [, quoted, bare] =
    /^multipart\/form-data\s*;\s*boundary=(?:"([^"\\]{1,70})"|([^\s;,"]{1,70}))\s*$/i.exec(contentType) ?? [];
  return quoted ?? bare;
}

/**
 * Scans a multipart form (RFC 7578) while it is forwarded, without keeping its files. Reads only the usual syntax of
 * clients. A form is unclear if another reader could read it differently, for example if it has a preamble, folded
 * headers or bare line feeds.
 */
export class FormScanner {
  readonly #listener: FormListener;
  readonly #delimiter: Buffer;
  /**
   * Bytes that cannot be read yet, because they may be the start of a delimiter or belong to incomplete headers. Starts
   * with a line end, because the first delimiter has none before it.
   */
  #rest: Buffer = lineEnd;
  #state: "start" | "delimiter" | "headers" | "body" | "over" = "start";
  #part: FormPart | undefined;
  #value: Buffer[] = [];
  #valueBytes = 0;
  /** Bytes of the line end before a file that were not seen yet. */
  #lineEndLeft = 0;

  constructor(boundary: string, listener: FormListener) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
    this.#listener = listener;
  }

  push(bytes: Buffer): void {
    if (this.#state === "over") return;
    let left = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = Buffer.alloc(0);
    for (;;) {
      const next: Buffer | undefined = this.#step(left);
      if (next === undefined) return;
      left = next;
    }
  }

  /** Returns the remaining bytes after one step; undefined if more bytes must arrive or the scan has ended. */
  #step(bytes: Buffer): Buffer | undefined {
    switch (this.#state) {
      case "start":
        return this.#start(bytes);
      case "delimiter":
        return this.#delimited(bytes);
      case "headers":
        return this.#headers(bytes);
      case "body":
        return this.#body(bytes);
      case "over":
        return undefined;
    }
  }

  #start(bytes: Buffer): Buffer | undefined {
    if (bytes.length < this.#delimiter.length) return this.#wait(bytes);
    if (!bytes.subarray(0, this.#delimiter.length).equals(this.#delimiter)) return this.#unclear();
    this.#state = "delimiter";
    return bytes.subarray(this.#delimiter.length);
  }

  #delimited(bytes: Buffer): Buffer | undefined {
    if (bytes.length < 2) return this.#wait(bytes);
    const what = bytes.toString("latin1", 0, 2);
    if (what === "--") {
      this.#state = "over";
      this.#listener.complete?.();
      return undefined;
    }
    if (what !== "\r\n") return this.#unclear();
    this.#state = "headers";
    // Keeps the line end before the headers, because the end of empty headers begins with it.
    return bytes;
  }

  #headers(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf(headersEnd);
    if (end === -1) return bytes.length > headersBytesMax ? this.#unclear() : this.#wait(bytes);
    const part = partOf(bytes.toString("utf8", 2, Math.max(end, 2)));
    if (part === undefined || end > headersBytesMax) return this.#unclear();
    this.#part = part;
    this.#value = [];
    this.#valueBytes = 0;
    this.#lineEndLeft = lineEnd.length;
    this.#state = "body";
    this.#listener.part(part);
    // Keeps the line end after the headers, because it is part of the delimiter if the value is empty.
    return bytes.subarray(end + lineEnd.length);
  }

  #body(bytes: Buffer): Buffer | undefined {
    const found = bytes.indexOf(this.#delimiter);
    if (found === -1) {
      const kept = Math.min(this.#delimiter.length - 1, bytes.length);
      this.#keep(bytes.subarray(0, bytes.length - kept));
      return this.#wait(bytes.subarray(bytes.length - kept));
    }
    this.#keep(bytes.subarray(0, found));
    if (this.#part?.isFile === false) this.#listener.field(this.#part.name, this.#valueText());
    this.#state = "delimiter";
    return bytes.subarray(found + this.#delimiter.length);
  }

  #keep(bytes: Buffer): void {
    if (this.#part?.isFile === true) {
      const file = bytes.subarray(this.#lineEndLeft);
      this.#lineEndLeft -= Math.min(this.#lineEndLeft, bytes.length);
      if (file.length > 0) this.#listener.file?.(file);
    }
    if (this.#part?.isFile !== false) return;
    this.#valueBytes += bytes.length;
    if (this.#valueBytes <= valueBytesMax) this.#value.push(Buffer.from(bytes));
    else this.#value = [];
  }

  /** Returns the value of the current part, without the line end that follows the headers; null if it is too long. */
  #valueText(): string | null {
    if (this.#valueBytes > valueBytesMax) return null;
    return Buffer.concat(this.#value).toString("utf8").slice(lineEnd.length);
  }

  #wait(bytes: Buffer): undefined {
    this.#rest = Buffer.from(bytes);
  }

  #unclear(): undefined {
    this.#state = "over";
    this.#listener.unclear();
  }
}

/** Reads the headers of a part; undefined if they have an unusual syntax or name no field. */
function partOf(text: string): FormPart | undefined {
  let part: FormPart | undefined;
  for (const line of text.split("\r\n")) {
    const [, name = "", value = ""] = /^([A-Za-z-]+): *(.*)$/.exec(line) ?? [];
    if (name === "" || line.includes("\n")) return undefined;
    if (name.toLowerCase() !== "content-disposition") continue;
    const [, field, file] = disposition.exec(value.trimEnd()) ?? [];
    if (part !== undefined || field === undefined) return undefined;
    part = { name: field, isFile: file !== undefined };
  }
  return part;
}
