import { expect, it } from "vitest";
import { failedCall } from "../../../src/request/gateway-failure.ts";

it.each([
  [true, "unknown"],
  [false, "notSent"],
])("a reset of a reused connection has its own reason (request sent: %s): %s", (isSent, kind) => {
  const { ending, refusal } = failedCall({ kind: "reset_reused", message: "read ECONNRESET" }, isSent);
  expect(ending).toEqual({ kind, reason: "gateway_reset_reused" });
  expect(refusal).toEqual({
    code: "gateway_unreachable",
    message: "The gateway closed a reused connection before it answered.",
  });
});
