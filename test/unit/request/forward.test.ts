import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Exchange } from "../../../src/ports/exchange.ts";
import type { GatewayReceiver } from "../../../src/ports/gateway.ts";
import { Running } from "../../../src/core/running.ts";
import { Forwarder, type ForwardParams } from "../../../src/request/forward.ts";
import { chatCompletions } from "../../../src/wire/endpoints/chat-completions.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { createMask } from "../../../src/request/response.ts";

const wholeMs = 100;

/** Returns a forwarder with a scripted gateway and a manual clock. */
function forwarding() {
  const clock = manualClock();
  const receivers: GatewayReceiver[] = [];
  const forwarder = new Forwarder({
    gateway: {
      send: (_request, receiver) => {
        receivers.push(receiver);
        return { sent: true, abort: () => undefined, pause: () => undefined, resume: () => undefined };
      },
    },
    clock,
    mask: createMask(""),
    keyWatch: { isRefused: false, setRefused: () => undefined },
    limits: { silenceMs: 1_000, wholeMs },
  });
  const ended: string[] = [];
  const begin = async (name: string) => {
    const exchange = {
      path: "/v1/chat/completions",
      onClientGone: () => undefined,
      refuse: () => undefined,
      status: null,
      startedAt: 0,
    };
    const { ending } = await forwarder.forward({
      exchange: exchange as unknown as Exchange,
      path: "/",
      headers: {},
      body: undefined,
      endpoint: chatCompletions,
      stream: false,
      dropUsageChunk: false,
      watch: undefined,
      wholeBytesMax: null,
      inspect: () => null,
      ownHeaders: [],
      costHeaders: () => [],
      cutAtMaximum: null,
    } satisfies ForwardParams);
    ended.push(`${name} ${"reason" in ending ? ending.reason : ending.kind}`);
  };
  const pass = async (ms: number) => {
    clock.advance(ms);
    await Promise.resolve();
    return ended;
  };
  return { clock, receivers, begin, pass };
}

it("ends each slow answer at its own time limit, with one timer for all", async () => {
  const { clock, receivers, begin, pass } = forwarding();
  void begin("first");
  await pass(40);
  void begin("second");
  await pass(30);
  void begin("third");
  expect(clock.waiting).toBe(1);
  receivers[1]?.fail({ kind: "reset", message: "" });
  expect(await pass(29)).toEqual(["second gateway_reset"]);
  expect(await pass(1)).toEqual(["second gateway_reset", "first time_limit"]);
  expect(await pass(69)).toHaveLength(2);
  expect(await pass(1)).toEqual(["second gateway_reset", "first time_limit", "third time_limit"]);
  expect(clock.waiting, "nothing runs any more").toBe(0);
});

it.each(["head", "send"] as const)("an exception in %s fails its request and leaves no timer", async (where) => {
  const clock = manualClock();
  let aborted = 0;
  const forwarder = new Forwarder({
    gateway: {
      send: (_request, receiver) => {
        if (where === "send") throw new Error("a bug");
        queueMicrotask(() =>
          receiver.head({ status: 200, statusText: "OK", rawHeaders: [], header: () => "text/event-stream" }),
        );
        return { sent: true, abort: () => aborted++, pause: () => undefined, resume: () => undefined };
      },
    },
    clock,
    mask: createMask(""),
    keyWatch: { isRefused: false, setRefused: () => undefined },
    limits: { silenceMs: 1_000, wholeMs },
  });
  const exchange = {
    path: "/v1/chat/completions",
    onClientGone: () => undefined,
    startedAt: 0,
    begin() {
      throw new Error("a bug");
    },
  };
  const params = { exchange: exchange as unknown as Exchange, path: "/", headers: {}, body: undefined };
  const answer = { endpoint: chatCompletions, stream: true, dropUsageChunk: false, watch: undefined };
  const rest = { wholeBytesMax: null, inspect: () => null, ownHeaders: [], costHeaders: () => [], cutAtMaximum: null };
  await expect(forwarder.forward({ ...params, ...answer, ...rest })).rejects.toThrow("a bug");
  expect(aborted).toBe(where === "head" ? 1 : 0);
  clock.advance(wholeMs);
  expect(clock.waiting, "nothing runs any more").toBe(0);
});

it("Running contains the items that were added and not removed, in any order", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), (steps) => {
      const running = new Running<{ index: number; readonly name: number }>();
      const expected = new Map<number, { index: number; readonly name: number }>();
      for (const name of steps) {
        const known = expected.get(name);
        if (known === undefined) {
          const item = { index: -1, name };
          expected.set(name, item);
          running.add(item);
        } else {
          expected.delete(name);
          running.remove(known);
        }
        expect(
          running
            .all()
            .map((item) => item.name)
            .sort(),
        ).toEqual([...expected.keys()].sort());
      }
    }),
  );
});
