import { describe, expect, it } from "vitest";
import { bareName, baseName, fold, foldedForms, withoutVariant } from "../../../src/core/model-names.ts";

it.each([
  [" GPT-4o ", "gpt-4o"],
  ["\uff47\uff50\uff54-4o", "gpt-4o"],
  ["\u212aimi", "kimi"],
  ["Openai/GPT-4O", "openai/gpt-4o"],
  ["模型-Ä", "模型-ä"],
])("%j is folded to %j", (name, folded) => {
  expect(fold(name)).toBe(folded);
});

it.each([
  ["openai/gpt-4o", "gpt-4o"],
  ["router/openai/gpt-4o", "gpt-4o"],
  ["gpt-4o", "gpt-4o"],
  ["gpt-4o/", ""],
])("%j without its provider is %j", (name, bare) => {
  expect(bareName(name)).toBe(bare);
});

it.each([
  ["openai/gpt-4o:nitro", "openai/gpt-4o"],
  ["llama3:8b:free", "llama3"],
  ["host:80/gpt-4o", undefined],
  ["gpt-4o", undefined],
])("%j without its variant is %j", (name, base) => {
  expect(withoutVariant(name)).toBe(base);
});

it.each([
  ["OpenAI/GPT-4o-Latest", ["openai/gpt-4o-latest", "openai/gpt-4o", "gpt-4o-latest", "gpt-4o"]],
  ["openai/gpt-4o", ["openai/gpt-4o", "gpt-4o"]],
])("%s may spell %j, in this order", (text, forms) => {
  expect([...new Set(foldedForms(text))]).toEqual(forms);
});

describe("baseName", () => {
  it.each([
    ["gpt-4o-2024-11-20", "gpt-4o"],
    ["claude-sonnet-4-6-20260101", "claude-sonnet-4-6"],
    ["claude-sonnet-4@20250514", "claude-sonnet-4"],
    ["gemini-2.5-flash-001", "gemini-2.5-flash"],
    ["gemini-2.5-flash-latest", "gemini-2.5-flash"],
    ["gpt-4-0613", "gpt-4"],
    ["m-latest-2024-11-20", "m-latest"],
    ["m-2020-01-01", "m"],
    ["m-2099-12-31", "m"],
    ["m-0101", "m"],
    ["m-1231", "m"],
    [`${"m".repeat(121)}-latest`, "m".repeat(121)],
  ])("removes the revision from %s", (name, base) => {
    expect(baseName(name)).toBe(base);
  });

  it.each([
    "gpt-4o",
    "gpt-4o-audio-preview",
    "gpt-4o-mini",
    "gpt-4o-2024-13-20",
    "gpt-4o-2024-11-00",
    "gpt-4o-1999-11-20",
    "m-2019-12-31",
    "m-2100-01-01",
    "m-2024-00-20",
    "m-2024-11-32",
    "m-0032",
    "m-0132",
    "gpt-4o-2024-11",
    "gpt-4-1306",
    "gpt-4-32k",
    "gpt-5-2",
    "gemini-2.5-flash-123",
    "gpt-4o-20241120-x",
    "gpt-4o-latest2",
    "-latest",
    "2024-11-20",
    `${"m".repeat(122)}-latest`,
    "two\nlines-latest",
  ])("finds no revision in %s", (name) => {
    expect(baseName(name)).toBeUndefined();
  });
});
