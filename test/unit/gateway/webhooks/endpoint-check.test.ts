import { expect, it } from "vitest";
import { systemClock } from "../../../../src/platform/clock.ts";
import { createEndpointCheck } from "../../../../src/gateway/webhooks/endpoint-check.ts";

const forClients = createEndpointCheck({ clock: systemClock(), rule: "strict" });
const forAdministrator = createEndpointCheck({ clock: systemClock(), rule: "administrator" });

const publicOnly = "must lead to a public address, not to a private network or this machine";

it.each([
  ["nothing", "must be an address such as https://client.example/hook"],
  ["http://93.184.215.14/", "must begin with https://"],
  ["ftp://93.184.215.14/", "must begin with https://"],
  ["https://10.0.0.1/", publicOnly],
  ["https://127.0.0.1:8443/hook", publicOnly],
  ["https://[::1]/", publicOnly],
  ["https://[::ffff:192.168.1.1]/", publicOnly],
  ["https://[64:ff9b::a9fe:a9fe]/", publicOnly],
  ["https://[100:0:0:1::1]/", publicOnly],
  ["https://169.254.169.254/latest/meta-data", publicOnly],
  ["https://2130706433/", publicOnly],
  ["https://0x7f.1/", publicOnly],
  ["https://localhost/", publicOnly],
  ["https://93.184.215.14/hook?token=1", null],
  // A name that does not resolve is checked again when something is sent.
  ["https://stranger.invalid/", null],
])("the check of a client's endpoint %s returns %j", async (endpoint, problem) =>
  expect(await forClients(endpoint)).toBe(problem),
);

it.each([
  ["http://127.0.0.1:8080/", null],
  ["https://10.0.0.1/", null],
  ["http://10.0.0.1/", "must begin with https://; plain http only to this machine"],
  ["https://169.254.169.254/", "must not lead to a link-local, metadata or reserved address"],
])("the check with private addresses permitted returns, for %s, %j", async (endpoint, problem) =>
  expect(await forAdministrator(endpoint)).toBe(problem),
);
