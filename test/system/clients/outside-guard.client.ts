import { outside } from "./support/outside-guard.ts";
import { connect } from "node:net";
import { once } from "node:events";
import { expect, it } from "vitest";
import { errorFrom } from "./support/sdk-contract.ts";

it("lets a client reach nothing beyond this machine, by name or by address, and notes the attempt", async () => {
  const error = await errorFrom(fetch("http://gateway.example/v1/models"));
  expect((error as Error).cause).toMatchObject({ code: "ECONNREFUSED" });
  expect(await errorFrom(once(connect(443, "192.0.2.1"), "connect"))).toMatchObject({ code: "ECONNREFUSED" });
  expect(outside).toEqual(["gateway.example", "192.0.2.1"]);
});
