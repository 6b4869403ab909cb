import { expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { readForm } from "../../../src/wire/form.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";

interface Part {
  readonly name: string;
  readonly value: string;
  readonly file?: boolean;
}

function requestAt(route: string, parts: readonly Part[]): ModelRequest | undefined {
  const form = parts.map(
    ({ name, value, file }) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"${file === true ? '; filename="f"' : ""}\r\n\r\n${value}\r\n`,
  );
  const read = endpoints
    .find((endpoint) => endpoint.route === route)
    ?.readForm?.(readForm(Buffer.from(`${form.join("")}--b--\r\n`), "multipart/form-data; boundary=b"));
  return read?.ok === true ? read.request : undefined;
}

const edits = "/v1/images/edits";
const transcriptions = "/v1/audio/transcriptions";
const model = { name: "model", value: "m" };
const image = { name: "image", value: "x".repeat(9000), file: true };

it("a form's text is everything but its media, so a prompt that is sent as a file counts", () => {
  const bytes = (parts: readonly Part[]) => requestAt(edits, [model, image, ...parts])?.size.textBytes ?? NaN;
  const plain = model.name.length + model.value.length + image.name.length;
  const prompt = { name: "prompt", value: "y".repeat(700) };
  const mask = { name: "mask", value: "z".repeat(800) };
  expect(bytes([])).toBe(plain);
  expect(bytes([prompt])).toBe(plain + 706);
  expect(bytes([{ ...prompt, file: true }])).toBe(plain + 706);
  expect(bytes([{ ...mask, file: true }])).toBe(plain + 4);
  expect(bytes([mask])).toBe(plain + 804);
});

it("a form has at least as many images as it has parts for images", () => {
  const images = (count: number) =>
    requestAt(edits, [model, ...Array.from({ length: count }, () => ({ ...image, name: "image[]" }))])?.size.imageParts;
  expect([images(1), images(17), images(40)]).toEqual([17, 17, 40]);
});

it.each<[string, readonly Part[], "measured" | "unknown"]>([
  ["one file", [], "measured"],
  ["one file and fields", [{ name: "prompt", value: "x" }], "measured"],
  ["another file", [{ name: "prompt", value: "x", file: true }], "unknown"],
  ["a second recording as a field", [{ name: "file", value: "x" }], "unknown"],
  ["a second recording in a list", [{ name: "file[]", value: "x" }], "unknown"],
  ["an unknown field", [{ name: "file_url", value: "x" }], "unknown"],
])("the seconds of a recording are known for a form with %s", async (_what, more, expected) => {
  const wave = Buffer.alloc(44 + 1_000_000, 7);
  wave.write("RIFF", 0, "latin1");
  wave.write("WAVE", 8, "latin1");
  wave.write("fmt ", 12, "latin1");
  wave.set([16, 0, 0, 0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 64, 0x1f, 0, 0, 1, 0, 8, 0], 16);
  wave.write("data", 36, "latin1");
  const file = { name: "file", value: wave.toString("latin1"), file: true };
  const parts = [file, model, ...more].map((part) => ({ ...part, value: part.value }));
  const seconds = await requestAt(transcriptions, parts)?.soundSeconds?.();
  expect(seconds).toBe(expected === "measured" ? 125 : undefined);
});

it("texts that may name models are bounded together, and longer ones have no bound", () => {
  const fields = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: `x${index}`, value: `gpt-4o ${"y".repeat(30_000)}` }));
  const read = (count: number) => requestAt(transcriptions, [model, ...fields(count)]);
  expect(read(8)?.unboundedFields).toEqual([]);
  expect(read(8)?.fields.mentions).toContain("gpt-4o");
  expect(read(9)?.unboundedFields).toHaveLength(9);
  expect(read(9)?.fields.mentions).not.toContain("gpt-4o");
});
