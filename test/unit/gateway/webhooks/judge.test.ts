import { expect, it } from "vitest";
import { systemClock } from "../../../../src/platform/clock.ts";
import { createJudge } from "../../../../src/gateway/webhooks/judge.ts";

const strict = createJudge({ clock: systemClock(), rule: "strict" });
const own = createJudge({ clock: systemClock(), rule: "administrator" });

const publicOnly = "must lead to a public address, not to one of a private network or this machine";

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
  // Not there: it is judged again when something is sent.
  ["https://stranger.invalid/", null],
])("a client's %s: %s", async (endpoint, problem) => expect(await strict(endpoint)).toBe(problem));

it.each([
  ["http://127.0.0.1:8080/", null],
  ["https://10.0.0.1/", null],
  ["http://10.0.0.1/", "must begin with https://; plain http only to this machine"],
  ["https://169.254.169.254/", "must not lead to a link-local, metadata or reserved address"],
])("where private ones are permitted %s: %s", async (endpoint, problem) => expect(await own(endpoint)).toBe(problem));
