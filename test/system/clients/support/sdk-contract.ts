import { describe, expect, it } from "vitest";
import { outside } from "./outside-guard.ts";
import { chargedAsBilled, gatewayText, refusedByFarebox, type Endpoint, type WatchedProxy } from "./watched-proxy.ts";

/** Result of a call, as a client's user receives it. */
export interface Answer {
  readonly text: string;
  readonly usage: { readonly input: number; readonly output: number } | undefined;
  readonly tools: readonly { readonly name: string; readonly input: unknown }[];
}

export interface CallParams {
  readonly prompt: string;
  readonly outputTokensMax: number;
  /** Requests the usage of a stream in the client's own way. */
  readonly usage?: boolean;
  /** Offers `weatherTool` and requires a call. */
  readonly tool?: boolean;
}

export const weatherTool = {
  name: "weather",
  description: "Weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
} as const;

/** A library, and what its user sees. It may retry once. */
export interface SdkClient {
  readonly name: string;
  plain(at: Endpoint, params: CallParams): Promise<Answer>;
  /** Rejects when the library reports an error in any way; calls `received` with the text as it arrives. */
  streamed(at: Endpoint, params: CallParams, received: (text: string) => void): Promise<Answer>;
  /** True if the library requests a stream's usage by default. */
  readonly asksForUsage: boolean;
  /** Expectations of the error: its class and members. */
  readonly sees: Record<
    "wrongKey" | "exhausted" | "cut" | "brokenOff",
    { readonly type: new (...args: never[]) => Error; readonly like: object }
  >;
}

const params: CallParams = { prompt: "Say hello.", outputTokensMax: 60 };

export function describeSdk(client: SdkClient, proxy: WatchedProxy): void {
  describe(client.name, () => {
    it("reads a plain answer and its usage", async () => {
      const answer = await client.plain(proxy.rich, params);
      const seen = await proxy.seen();
      const { tokens } = chargedAsBilled(seen);
      expect(answer.text).toBe(await gatewayText(seen.atGateway[0] ?? ""));
      expect(answer.usage).toEqual({ input: tokens.input, output: tokens.output });
    });

    it("reads a stream with the library's default options", async () => {
      const { answer, pieces } = await stream(proxy.rich, params);
      const seen = await proxy.seen();
      const { tokens } = chargedAsBilled(seen);
      expect(pieces.length).toBeGreaterThan(10);
      expect(answer.text).toBe(await gatewayText(seen.atGateway[0] ?? ""));
      expect(answer.usage).toEqual(client.asksForUsage ? { input: tokens.input, output: tokens.output } : undefined);
    });

    it("reads the usage of a stream that requests it", async () => {
      const { answer } = await stream(proxy.rich, { ...params, usage: true });
      const { tokens } = chargedAsBilled(await proxy.seen());
      expect(answer.usage).toEqual({ input: tokens.input, output: tokens.output });
    });

    it("calls a tool, plain and streamed", async () => {
      const call = { name: "weather", input: { city: expect.any(String) as string } };
      expect((await client.plain(proxy.rich, { ...params, tool: true })).tools).toEqual([call]);
      chargedAsBilled(await proxy.seen());
      const { answer } = await stream(proxy.rich, { ...params, tool: true, usage: true });
      expect(answer.tools).toEqual([call]);
      chargedAsBilled(await proxy.seen());
    });

    it("reports an exhausted budget after one request", async () => {
      expectSeen(await errorFrom(client.plain(proxy.poor, params)), "exhausted");
      refusedByFarebox(await proxy.seen());
      expectSeen(await errorFrom(stream(proxy.poor, params)), "exhausted");
      refusedByFarebox(await proxy.seen());
    });

    it("reports a wrong key after one request", async () => {
      expectSeen(await errorFrom(client.plain(proxy.unknown, params)), "wrongKey");
      refusedByFarebox(await proxy.seen());
      expectSeen(await errorFrom(stream(proxy.unknown, params)), "wrongKey");
      refusedByFarebox(await proxy.seen());
    });

    it("raises when a stream is cut, and is charged for what was delivered", async () => {
      proxy.gatewayWill("cut:5");
      const pieces: string[] = [];
      expectSeen(await errorFrom(client.streamed(proxy.rich, params, (text) => pieces.push(text))), "cut");
      const { atFarebox, atGateway, charges, billed } = await proxy.seen();
      expect(atFarebox).toHaveLength(1);
      expect(pieces.join("")).not.toBe("");
      expect((await gatewayText(atGateway[0] ?? "")).startsWith(pieces.join(""))).toBe(true);
      expect(charges).toMatchObject([{ state: "posted", source: "partial", reason: "gateway_reset", status: 200 }]);
      expect(charges[0]?.tokens.output).toBe(5);
      expect(charges[0]?.cost).toBeGreaterThanOrEqual(billed[0]?.cost ?? 0n);
      expect(charges[0]?.cost).toBeLessThan(charges[0]?.hold ?? 0n);
    });

    it("retries when a plain answer breaks off, and each try is charged", async () => {
      proxy.gatewayWill("cut");
      expectSeen(await errorFrom(client.plain(proxy.rich, params)), "brokenOff");
      const { atFarebox, charges, billed } = await proxy.seen();
      expect(atFarebox).toHaveLength(2);
      expect(charges.map(({ state, source, status }) => ({ state, source, status }))).toEqual(
        Array.from({ length: 2 }, () => ({ state: "posted", source: "assumed", status: 502 })),
      );
      charges.forEach(({ cost, hold }, index) => {
        expect(cost).toBe(hold);
        expect(cost).toBeGreaterThanOrEqual(billed[index]?.cost ?? 0n);
      });
    });

    it("reaches nothing but Farebox", () => {
      expect(outside).toEqual([]);
    });
  });

  async function stream(
    at: Endpoint,
    wanted: CallParams,
  ): Promise<{ readonly answer: Answer; readonly pieces: readonly string[] }> {
    const pieces: string[] = [];
    const answer = await client.streamed(at, wanted, (text) => pieces.push(text));
    return { answer, pieces };
  }

  function expectSeen(error: unknown, what: keyof SdkClient["sees"]): void {
    const { type, like } = client.sees[what];
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject(like);
  }
}

export async function errorFrom(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
