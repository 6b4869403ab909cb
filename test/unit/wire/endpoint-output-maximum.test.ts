import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { completions } from "../../../src/wire/endpoints/completions.ts";
import { responses } from "../../../src/wire/endpoints/responses.ts";
import { withOutputMaximum, type Endpoint } from "../../../src/wire/endpoint.ts";

function limited(
  body: string,
  most = 500,
  { endpoint = chatCompletions, field = "max_tokens", unstated = Infinity }: Partial<Limiting> = {},
): string {
  if (endpoint.maximum === undefined) throw new Error("the endpoint has a maximum");
  return withOutputMaximum(Buffer.from(body), endpoint.maximum, { field, most, unstated }).toString();
}

interface Limiting {
  readonly endpoint: Endpoint;
  readonly field: string;
  readonly unstated: number;
}

const rest = '"messages":[{"role":"user","content":"héé €😀 \\"max_tokens\\":9"}]';

describe("a maximum of the output", () => {
  it.each<[string, string, string]>([
    ["is added if none is stated", `{${rest}}`, `{"max_tokens":500,${rest}}`],
    ["is added after white space", ` \n{ ${rest} }\n`, ` \n{"max_tokens":500, ${rest} }\n`],
    ["replaces null in place", `{${rest}, "max_tokens" : null }`, `{${rest}, "max_tokens" : 500 }`],
    ["replaces null under an escaped name", `{"max\\u005ftokens":null,${rest}}`, `{"max\\u005ftokens":500,${rest}}`],
    ["lowers a larger value", `{"max_tokens":501,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["lowers a value under an escaped name", `{"\\u006dax_tokens": 501,${rest}}`, `{"\\u006dax_tokens": 500,${rest}}`],
    [
      "lowers the value of the other field",
      `{"max_completion_tokens":501,${rest}}`,
      `{"max_completion_tokens":500,${rest}}`,
    ],
    [
      "lowers every larger value",
      `{"max_tokens":501,${rest},"max_completion_tokens":9000}`,
      `{"max_tokens":500,${rest},"max_completion_tokens":500}`,
    ],
    [
      "keeps the smaller of two values",
      `{"max_tokens":100,${rest},"max_completion_tokens":9000}`,
      `{"max_tokens":100,${rest},"max_completion_tokens":500}`,
    ],
    [
      "keeps null next to a smaller value",
      `{"max_tokens":null,"max_completion_tokens":7,${rest}}`,
      `{"max_tokens":null,"max_completion_tokens":7,${rest}}`,
    ],
    ["keeps an equal value", `{"max_tokens":500,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["keeps a smaller value", `{${rest},"max_tokens":1}`, `{${rest},"max_tokens":1}`],
    ["replaces 0", `{"max_tokens":0,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces a number below 0", `{"max_tokens":-1,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces a fraction", `{"max_tokens":1.5,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces a text", `{"max_tokens":"10",${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces an object", `{"max_tokens":{"max_tokens":1},${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces a huge number", `{"max_tokens":1e400,${rest}}`, `{"max_tokens":500,${rest}}`],
    ["replaces a number with too many digits", `{"max_tokens":100000000001,${rest}}`, `{"max_tokens":500,${rest}}`],
    [
      "keeps members of other objects",
      `{"metadata":{"max_tokens":"9000"},${rest}}`,
      `{"max_tokens":500,"metadata":{"max_tokens":"9000"},${rest}}`,
    ],
  ])("%s", (_, body, expected) => {
    expect(limited(body)).toBe(expected);
  });

  it("is added in the field that the model reads, and keeps null in the other field", () => {
    const gpt5 = { field: "max_completion_tokens" };
    expect(limited(`{"max_tokens":null,${rest}}`, 500, gpt5)).toBe(
      `{"max_completion_tokens":500,"max_tokens":null,${rest}}`,
    );
    const body = `{"max_completion_tokens":null,${rest}}`;
    expect(limited(body, 500, gpt5)).toBe(`{"max_completion_tokens":500,${rest}}`);
    expect(limited('{"input":"a"}', 500, { endpoint: responses, field: "max_output_tokens" })).toBe(
      '{"max_output_tokens":500,"input":"a"}',
    );
  });

  it("is never added above the endpoint's default, but may be stated above it", () => {
    const given = { endpoint: completions, unstated: 16 };
    expect(limited('{"prompt":"a"}', 500, given)).toBe('{"max_tokens":16,"prompt":"a"}');
    expect(limited('{"prompt":"a"}', 9, given)).toBe('{"max_tokens":9,"prompt":"a"}');
    expect(limited('{"prompt":"a","max_tokens":100}', 500, given)).toBe('{"prompt":"a","max_tokens":100}');
  });

  it("is at most the limit in any request, and every other field is kept", () => {
    const value = fc.oneof(fc.constant(null), fc.integer(), fc.double(), fc.string(), fc.json());
    const members = fc.dictionary(
      fc.oneof(fc.string(), fc.constantFrom("max_tokens", "max_completion_tokens", "Max_Tokens", "model")),
      value,
    );
    fc.assert(
      fc.property(members, fc.integer({ min: 1, max: 5000 }), (object, most) => {
        const before = JSON.stringify(object);
        const after = JSON.parse(limited(before, most)) as Record<string, unknown>;
        for (const [name, kept] of Object.entries(JSON.parse(before) as object)) {
          if (name !== "max_tokens" && name !== "max_completion_tokens") expect(after[name]).toEqual(kept);
        }
        const stated = [after["max_tokens"], after["max_completion_tokens"]].filter((each) => each != null);
        expect(stated.length).toBeGreaterThan(0);
        for (const each of stated)
          expect(Number.isInteger(each) && Number(each) > 0 && Number(each) <= most).toBe(true);
      }),
    );
  });
});
