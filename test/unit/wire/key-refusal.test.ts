import { describe, expect, it } from "vitest";
import { refusesKey } from "../../../src/wire/key-refusal.ts";
import { saysKeyIsRefused } from "../../../src/wire/key-words.ts";

describe("the words of a refused key", () => {
  it.each([
    "invalid_api_key",
    "InvalidApiKey",
    "API_KEY_INVALID",
    "api_key_expired",
    "invalid_authentication",
    "account_deactivated",
    "Incorrect API key provided: sk-abc. You can find your API key at …",
    "invalid x-api-key",
    "Invalid or expired API key",
    "No auth credentials found",
    "Missing API key",
    "API key not valid. Please pass a valid API key.",
    "The API key 'sk-abc' is disabled",
    "Your API key has been revoked.",
    "your api key has expired",
    "The provided API key is invalid",
    "Unauthorized: invalid access token",
    "Invalid bearer token",
    "无效的令牌",
    "该令牌已过期",
    "API key无效",
  ])("are found in %j", (text) => {
    expect(saysKeyIsRefused(` ${text}\n`)).toBe(true);
  });

  it.each([
    "",
    "Forbidden",
    "Your API key does not have access to model o3",
    "API key is not valid for this model",
    "API key is disabled for this region",
    "Invalid request: api key",
    "invalid token in the prompt",
    "invalid_api_keyboard",
    "The prompt says: invalid API key",
    "No such organization: org-x",
    "notable api key",
    "You exceeded your current quota, please check your plan",
    "该令牌额度已用尽",
  ])("are not found in %j", (text) => {
    expect(saysKeyIsRefused(text)).toBe(false);
  });

  it("are searched in bounded time", () => {
    for (const text of [
      "invalid ".repeat(250),
      `api key${" ".repeat(2_000)}`,
      "no".repeat(1_000),
      `invalid${"_- ".repeat(600)}x`,
    ])
      expect(saysKeyIsRefused(text)).toBe(false);
  });
});

describe("an error status", () => {
  const body = (text: string) => Buffer.from(text);
  const code = body('{"error":{"code":"invalid_api_key"}}');

  it("of 401 needs no words if it can have no other cause", () => {
    expect([refusesKey(401, undefined, true), refusesKey(401, undefined, false), refusesKey(401, code, false)]).toEqual(
      [true, false, true],
    );
  });

  it("of 400, 401 and 403 may be about the key", () => {
    const statuses = [200, 302, 400, 401, 402, 403, 404, 422, 429, 500, 503].filter((status) =>
      refusesKey(status, code, true),
    );
    expect(statuses).toEqual([400, 401, 403]);
  });

  it.each([
    '{"message":"Invalid API key"}',
    '{"detail":"Invalid API key"}',
    '{"error":"Invalid API key"}',
    '["Invalid API key"]',
    '{"errors":[{"message":"Invalid API key"}]}',
    "Invalid API key",
    'event: error\ndata: {"error":{"code":"invalid_api_key"}}\n\n',
    '{"ok":false,"error":{"details":[{"reason":"API_KEY_INVALID"}]}}',
  ])("is about the key with the body %j", (text) => {
    expect(refusesKey(403, body(text), true)).toBe(true);
  });

  it.each([
    "",
    "null",
    "[]",
    "{",
    '{"param":"invalid_api_key"}',
    '{"error":{"param":"invalid_api_key","code":"unknown_parameter"}}',
    '{"input":"Invalid API key"}',
    '{"error":{"code":503,"message":"invalid api key"}}',
    `{"error":"${"x".repeat(70_000)}"}`,
    `Invalid API key${"x".repeat(3_000)}`,
  ])("is not about the key with another body", (text) => {
    expect(refusesKey(403, body(text), true)).toBe(false);
  });
});
