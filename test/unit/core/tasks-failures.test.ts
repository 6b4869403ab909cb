import { describe, expect, it } from "vitest";
import { failureReason, taskFailures, type TaskFailure } from "../../../src/core/tasks.ts";

const texts: Readonly<Record<TaskFailure, readonly string[]>> = {
  no_private_account: [
    "no available suno account",
    "account is missing in the private pool",
    "account of a private group",
    "private group has no account",
    "No Usable Account",
  ],
  private_pool_only: [
    "unsupported under ppu",
    "not supported for the pay-as-you-go plan",
    "not support in the ppu",
    "not supported by pay as you go",
    "byoa only",
    "byoa mode only",
    "host-your-account only",
    "host your account mode only",
    "only in byoa",
    "only available with the byoa",
    "only supported for host-your accounts",
    "only with the host your accounts",
  ],
  plan_lacks_access: [
    "your plan does not support this",
    "plan access",
    "upgrade your subscription",
    "upgrade the plan",
    "a subscription is required",
    "subscription access",
  ],
  image_quota: [
    "image generation quota",
    "image quota",
    "quota for the image",
    "quota is not enough",
    "quota insufficient",
    "insufficient account quota",
    "user quota",
  ],
  upstream_no_credit: [
    "no credit",
    "insufficient account balance",
    "not enough points",
    "out of funds",
    "credits are used up",
    "credit exhausted",
    "payment required",
  ],
  upstream_rate_limit: [
    "ratelimit",
    "rate limit",
    "rate-limited",
    "too many requests",
    "error 429",
    "too many running tasks",
    "too many concurrent tasks",
  ],
  upstream_timeout: ["error 524", "504", "gateway timeout", "gateway time-out"],
  time_limit: [
    "context deadline",
    "the deadline exceeded",
    "time allowance",
    "exceeded the maximum time",
    "exceeded time",
    "time limit",
    "ran too long",
  ],
  input_media: [
    "failed to download the image",
    "download url",
    "cannot decode audio",
    "the video could not be used",
    "picture is unsupported",
    "file invalid",
    "media not found",
    "image is not be valid",
    "image not a valid one",
    "video can't be opened",
    "unknown image",
    "unsupported media",
    "invalid audio",
  ],
  request_format: [
    "json has a syntax error",
    "json invalid",
    "unmarshal",
    "marshal failed",
    "cannot parse",
    "type mismatch",
    "invalid parameter",
    "expected format",
    "bad request",
    "missing field",
    "missing required parameter",
  ],
  redirect: ["error 307", "temporary redirect"],
  upstream_overload: [
    "overloaded",
    "server busy",
    "server is busy",
    "at capacity",
    "service unavailable",
    "error 503",
    "high demand",
    "high load",
    "try again later",
  ],
  network: [
    "handshake",
    "connection reset",
    "connection timed out",
    "network",
    "tls failed",
    "unexpected eof",
    "broken pipe",
    "no such host",
    "i/o timeout",
    "timeout",
    "time-out",
    "timed out",
  ],
  content_refused: [
    "moderated",
    "nsfw",
    "sensitive",
    "against our policy",
    "prohibited",
    "inappropriate",
    "unsafe",
    "copyright",
    "flagged",
    "content filter",
    "content violates",
  ],
  other: ["", "something else", "1429", "5241", "13070", "45031", "no", "accounts", "planet", "image", "quota"],
};

describe.each(taskFailures)("the reason %s", (reason) => {
  it.each(texts[reason])("is read from %j", (text) => {
    expect(failureReason([text])).toBe(reason);
    expect(failureReason([text.toUpperCase()])).toBe(reason);
  });
});

it("the first text with a known reason decides", () => {
  expect(failureReason([])).toBe("other");
  expect(failureReason(["something else", "error 429", "timeout"])).toBe("upstream_rate_limit");
});

it("the list of failure reasons is complete", () => {
  expect(taskFailures).toEqual([
    "input_media",
    "request_format",
    "network",
    "upstream_no_credit",
    "upstream_rate_limit",
    "upstream_overload",
    "time_limit",
    "private_pool_only",
    "no_private_account",
    "plan_lacks_access",
    "image_quota",
    "upstream_timeout",
    "redirect",
    "content_refused",
    "other",
  ]);
});
