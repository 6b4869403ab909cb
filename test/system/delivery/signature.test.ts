import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { skipWithout } from "../../support/programs.ts";
import { signatureHeader, webhookHeaders } from "../../../src/wire/webhook-signature.ts";

const headers = webhookHeaders("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330_000);

it.skipIf(skipWithout("openssl"))("signatureHeader uses a secret without whsec_ as bytes, as openssl does", () => {
  const body = '{"text":"größer"}';
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  const expected = execFileSync("openssl", ["dgst", "-sha256", "-hmac", "correct-horse-battery", "-binary"], {
    input: signed,
  }).toString("base64");
  expect(signatureHeader("correct-horse-battery", headers, body)["webhook-signature"]).toBe(`v1,${expected}`);
});
