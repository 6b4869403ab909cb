import { outside } from "./support/outside-guard.ts";
import { connect } from "node:net";
import { once } from "node:events";
import { expect, it } from "vitest";
import { errorFrom } from "./support/sdk-contract.ts";

it("the guard stops connections beyond this machine, by name or address, and records them", async () => {
  const error = await errorFrom(fetch("http://gateway.example/v1/models"));
  expect((error as Error).cause).toMatchObject({ code: "ECONNREFUSED" });
  expect(await errorFrom(once(connect(443, "192.0.2.1"), "connect"))).toMatchObject({ code: "ECONNREFUSED" });
  expect(outside).toEqual(["gateway.example", "192.0.2.1"]);
});
