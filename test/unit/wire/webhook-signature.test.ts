import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { signatureHeader, webhookHeaders } from "../../../src/wire/webhook-signature.ts";

const headers = webhookHeaders("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330_000);

it("a signature matches the example of Standard Webhooks", () => {
  expect(headers).toEqual({
    "content-type": "application/json",
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
  });
  expect(signatureHeader("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", headers, '{"test": 2432232314}')).toEqual({
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

it("a signature is verified by the code in the documentation", async () => {
  using folder = tempFolder();
  const document = readFileSync(new URL("../../../docs/alerts.md", import.meta.url), "utf8");
  const file = join(folder.path, "verified.mjs");
  writeFileSync(file, /```js\n([^]*?)```/.exec(document)?.[1] ?? "");
  const { verified } = (await import(pathToFileURL(file).href)) as {
    verified(headers: object, body: string, secret: string): boolean;
  };
  for (const secret of ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "correct-horse-battery"]) {
    const sent = (at: number) => {
      const unsigned = webhookHeaders("m1", at);
      return { ...unsigned, ...signatureHeader(secret, unsigned, "{}") };
    };
    expect(verified(sent(Date.now()), "{}", secret)).toBe(true);
    expect(verified(sent(Date.now()), "{ }", secret)).toBe(false);
    expect(verified({ ...sent(Date.now()), "webhook-id": "m2" }, "{}", secret)).toBe(false);
    expect(verified(sent(Date.now()), "{}", "another-secret-altogether")).toBe(false);
    expect(verified(sent(Date.now() - 3_600_000), "{}", secret)).toBe(false);
    expect(verified(webhookHeaders("m1", Date.now()), "{}", secret)).toBe(false);
  }
});
