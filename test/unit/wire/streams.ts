import * as fc from "fast-check";

/** Cuts bytes at the given places, in any order. Ignores places beyond the end. */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places)].filter((place) => place > 0 && place < bytes.length).sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => bytes.subarray(start, ends[index] ?? bytes.length));
}

export function everyByte(bytes: Buffer): Buffer[] {
  return cutAt(
    bytes,
    Array.from(bytes, (_, index) => index),
  );
}

/** Places to cut: mostly a few, sometimes all. */
export const cuts = fc.oneof(
  fc.array(fc.nat(600), { maxLength: 12 }),
  fc.constant(Array.from({ length: 5000 }, (_, index) => index)),
);

/** Reads server-sent events line by line as the standard describes it, from the whole text at once. */
export function referenceEvents(bytes: Buffer): { readonly data: string[]; readonly unfinished: string | undefined } {
  const text = new TextDecoder("utf-8", { ignoreBOM: false }).decode(bytes);
  const lines = text.split(/\r\n|\n|\r/);
  const unended = lines.pop() ?? "";
  const events: string[] = [];
  let data: string | undefined;
  const take = (line: string): void => {
    const [, name, value] = /^([^:]*)(?::[ ]?([^]*))?$/.exec(line) ?? [];
    if (name === "data") data = data === undefined ? (value ?? "") : `${data}\n${value ?? ""}`;
  };
  for (const line of lines) {
    if (line !== "") take(line);
    else if (data !== undefined) {
      events.push(data);
      data = undefined;
    }
  }
  if (unended !== "") take(unended);
  return { data: events, unfinished: data };
}

const text = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.constantFrom("ä€😀", "[DONE]", '{"usage":1}', "data: x", ":", " x", "\ufeff", "id: 3"),
  )
  .map((value) => value.replace(/[\r\n]/g, "").toWellFormed());

const line = fc.oneof(
  { weight: 5, arbitrary: text.map((value) => `data: ${value}`) },
  { weight: 2, arbitrary: text.map((value) => `data:${value}`) },
  { weight: 1, arbitrary: text.map((value) => `:${value}`) },
  { weight: 1, arbitrary: text },
  { weight: 1, arbitrary: fc.constantFrom("data", "datax", "data ", "dat", "event: y", "id: 1", "retry: 5") },
  { weight: 5, arbitrary: fc.constant("") },
);

const lineEnd = fc.constantFrom("\n", "\r\n", "\r");

/** Whole streams: all line ends, alone or mixed, comments, blank lines, other fields, byte order marks, open ends. */
export const eventStreams: fc.Arbitrary<Buffer> = fc
  .record({
    mark: fc.constantFrom("", "", "\ufeff"),
    lines: fc.oneof(
      fc.tuple(lineEnd, fc.array(line, { maxLength: 25 })).map(([end, all]) => all.map((one) => one + end)),
      fc.array(
        fc.tuple(line, lineEnd).map(([one, end]) => one + end),
        { maxLength: 25 },
      ),
    ),
    open: fc.oneof(fc.constant(""), line),
  })
  .map(({ mark, lines, open }) => Buffer.from(mark + lines.join("") + open));
