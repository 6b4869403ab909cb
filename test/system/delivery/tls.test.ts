import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { expect, it } from "vitest";
import { systemClock } from "../../../src/platform/clock.ts";
import { connectDirectly } from "../../../src/core/outbound-proxy.ts";
import { createWebhookSender } from "../../../src/gateway/webhooks/webhook-sender.ts";
import { probeWebhook } from "../../../src/gateway/webhooks/probe.ts";
import { selfSigned } from "../../support/certificate.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { skipWithout } from "../../support/programs.ts";

const directly = { choose: connectDirectly, clock: systemClock() };

it.skipIf(skipWithout("openssl"))(
  "webhooks are delivered over TLS only to receivers with a trusted certificate for their name",
  async () => {
    using folder = tempFolder();
    const { key, certificate } = selfSigned(folder.path);
    const bodies: string[] = [];
    const server = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) => {
      request
        .setEncoding("utf8")
        .on("data", (text: string) => bodies.push(text))
        .on("end", () => response.end());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await using sender = createWebhookSender({ clock: systemClock() });
    const send = (host: string) =>
      sender.send({ url: `https://${host}:${port}/`, rule: "administrator", headers: {}, body: "hello" });

    expect(await send("localhost")).toMatchObject({ ok: false, error: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    expect(await probeWebhook(`https://localhost:${port}/`, "administrator", directly)).toBe(
      "DEPTH_ZERO_SELF_SIGNED_CERT",
    );
    const before = getCACertificates("default");
    setDefaultCACertificates([...before, readFileSync(certificate, "utf8")]);
    try {
      expect(await send("localhost")).toEqual({ ok: true });
      expect(await probeWebhook(`https://localhost:${port}/`, "administrator", directly)).toBeNull();
      expect(await send("127.0.0.1")).toMatchObject({ ok: false, error: "ERR_TLS_CERT_ALTNAME_INVALID" });
    } finally {
      setDefaultCACertificates(before);
    }
    expect(bodies).toEqual(["hello"]);
    server.close();
  },
);
