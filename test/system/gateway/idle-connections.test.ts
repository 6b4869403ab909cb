import { readFileSync } from "node:fs";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, describe } from "vitest";
import { selfSigned } from "../../support/certificate.ts";
import { describeIdleConnections } from "../../support/idle-connections.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { skipWithout } from "../../support/programs.ts";

describe.skipIf(skipWithout("openssl"))("over TLS", () => {
  const authorities = getCACertificates("default");
  let credentials: { readonly key: string; readonly cert: string };
  beforeAll(() => {
    using folder = tempFolder();
    const { key, certificate } = selfSigned(folder.path);
    credentials = { key: readFileSync(key, "utf8"), cert: readFileSync(certificate, "utf8") };
    setDefaultCACertificates([...authorities, credentials.cert]);
  });
  afterAll(() => setDefaultCACertificates(authorities));

  describeIdleConnections("http-proxy-middleware", () => credentials);
  describeIdleConnections("undici", () => credentials);
});
