import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { signatureHeader, webhookHeaders } from "../../src/delivery/signature.ts";

const headers = webhookHeaders("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330_000);

it("signs as Standard Webhooks' own example", () => {
  expect(headers).toEqual({ "content-type": "application/json", "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330" });
  expect(signatureHeader("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers, '{"test": 2432232314}')).toEqual({
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

it("takes another secret for its own bytes, as openssl does", () => {
  const body = '{"text":"größer"}';
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = execFileSync("openssl", ["dgst", "-sha256", "-hmac", "correct horse battery".replaceAll(" ", "-"), "-binary"], { input: signed }).toString("base64");
  expect(signatureHeader("correct-horse-battery", headers, body)["webhook-signature"]).toBe(`v1,${expected}`);
});
