import { afterAll, beforeAll, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../src/core/money.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { callAdmin } from "../support/admin-client.ts";
import { errorOf } from "../support/answers.ts";
import { answeringGateway } from "../support/answering-gateway.ts";
import { startProxy } from "../support/running-proxy.ts";
import { startReceiver, type WebhookReceiver } from "../support/webhook-receiver.ts";

const hourMs = 3_600_000;
const token = "an-administrator-s-token-0123456789";
/** Number of unsettled requests that a day's budget covers, and number of requests per burst. */
const [paidFor, burst] = [3, 8];

/** Days with clock changes or unusual bounds. Bounds come from the tz database, not from the tested calendar. */
const days: readonly (readonly [zone: string, date: string, start: string, end: string, hours: number])[] = [
  ["Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23],
  ["Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25],
  // Clocks go back at midnight: the hour before it occurs twice.
  ["America/Santiago", "2026-04-04", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z", 25],
  // Midnight does not exist: the day begins at one o'clock.
  ["America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z", 23],
  ["Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", 23],
  // The clock change is half an hour.
  ["Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z", 24.5],
  // The month and the year end with this day.
  ["Asia/Kathmandu", "2026-12-31", "2026-12-30T18:15:00Z", "2026-12-31T18:15:00Z", 24],
];

let receiver: WebhookReceiver;
beforeAll(async () => void (receiver = await startReceiver()));
afterAll(() => receiver[Symbol.asyncDispose]());

it.each(days)(
  "%s: %s is one budget window, and requests in flight at its end settle in it",
  async (zone, date, startsAt, endsAt, hours) => {
    const [start, end] = [Date.parse(startsAt), Date.parse(endsAt)];
    expect(end - start).toBe(hours * hourMs);
    let now = start - 1;
    const clock: Clock = { ...systemClock(), now: () => now };
    // The gateway answers once the test lets it.
    const waiting: (() => void)[] = [];
    let isOpen = false;
    await using gateway = await answeringGateway(async () => {
      if (!isOpen) await new Promise<void>((resolve) => waiting.push(resolve));
      const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
      return {
        body: JSON.stringify({
          model: "gpt-4o",
          choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
          usage,
        }),
      };
    });
    const path = `/${zone}/${date}`;
    await using proxy = await startProxy({
      clock,
      gatewayUrl: gateway.url,
      env: { FAREBOX_TIME_ZONE: zone, FAREBOX_ADMIN_TOKEN: token, FAREBOX_ALERT_WEBHOOK: receiver.url + path },
    });
    const { ledger, alerts } = proxy.serving;
    const dayOf = async (at: number) => (await ledger.windows(at)).find(({ budget }) => budget.period === "1d");
    const statuses: number[] = [];
    const sent: Promise<void>[] = [];
    const refusedUntil: (string | number | null | undefined)[] = [];
    const send = () => {
      const answering = proxy.chat({ max_tokens: 100 }).then(async (answer) => {
        if (answer.status === 200) await answer.arrayBuffer();
        else refusedUntil.push((await errorOf(answer)).metadata?.["resets_at"]);
        statuses.push(answer.status);
      });
      sent.push(answering);
    };
    /** Waits until each request so far has reached the gateway or been answered. */
    const allDecided = async () => {
      while (waiting.length + statuses.length < sent.length) await new Promise((resolve) => setImmediate(resolve));
    };

    // A request in the last instant of the day before shows what a request holds and costs.
    isOpen = true;
    send();
    await Promise.all(sent);
    const { hold, cost, at } = await proxy.onlyCharge();
    isOpen = false;
    if (hold === null || cost === null) throw new Error("the request has no price");
    expect(at).toBe(start - 1);
    const limit = formatUsd((hold * BigInt(paidFor)) as PicoUsd);
    for (const period of ["1d", "1w", "1mo"] as const)
      await proxy.budget("all", period === "1d" ? limit : "100", period);
    expect(await dayOf(start)).toMatchObject({ start, end, spent: 0n });
    expect(await dayOf(start - 1)).toMatchObject({ end: start, spent: cost });

    // A burst in the last instant of the day, one across midnight, and one in the first instant of the next day.
    now = end - 1;
    for (let count = 0; count < burst; count++) send();
    await allDecided();
    expect(waiting).toHaveLength(paidFor);
    await alerts.evaluate();
    for (let count = 0; count < burst; count++) {
      if (count === burst / 2) now = end;
      send();
      await new Promise((resolve) => setImmediate(resolve));
    }
    for (let count = 0; count < burst; count++) send();
    await allDecided();
    const next = await dayOf(end);
    expect(next).toMatchObject({ start: end, spent: 0n });
    expect(next?.end).toBeGreaterThan(end + 22 * hourMs);
    expect(await dayOf(end - 1)).toMatchObject({ start, end, spent: 0n, held: hold * BigInt(paidFor) });
    expect(waiting).toHaveLength(2 * paidFor);
    expect(next?.held).toBe(hold * BigInt(paidFor));
    await alerts.evaluate();
    expect(new Set(refusedUntil)).toEqual(
      new Set([endsAt, new Date(next?.end ?? 0).toISOString()].map((text) => new Date(text).toISOString())),
    );

    // Requests that are answered long after midnight settle in the window of their admission.
    now = end + 5 * hourMs;
    isOpen = true;
    for (const answer of waiting.splice(0)) answer();
    await Promise.all(sent);
    const charges = await proxy.charges();
    expect(charges.map((charge) => charge.at)).toEqual([
      start - 1,
      ...Array<number>(paidFor).fill(end - 1),
      ...Array<number>(paidFor).fill(end),
    ]);
    const localDate = (instant: number) =>
      new Intl.DateTimeFormat("en-CA", { timeZone: zone, dateStyle: "short" }).format(instant);
    const weekday = (instant: number) => (new Date(`${localDate(instant)}T12:00:00Z`).getUTCDay() + 6) % 7;
    const monday = (instant: number) => Date.parse(`${localDate(instant)}T12:00:00Z`) - weekday(instant) * 24 * hourMs;
    const nameOf = {
      "1d": localDate,
      "1w": monday,
      "1mo": (instant: number) => localDate(instant).slice(0, 7),
      "1h": () => "",
      total: () => "",
    };
    for (const instant of [start - 1, end - 1, end]) {
      for (const {
        budget: { period },
        spent,
        held,
      } of await ledger.windows(instant)) {
        const inside = charges.filter((charge) => nameOf[period](charge.at) === nameOf[period](instant));
        expect([period, spent, held]).toEqual([period, cost * BigInt(inside.length), 0n]);
      }
    }

    // Reports, refusals and alerts agree.
    const reply = await callAdmin(proxy.url, "GET", `/usage?by=day&since=${date}`, { token });
    const report = reply.json as unknown as { rows: { day: string; requests: number; cost_usd: string }[] };
    const dayCost = formatUsd((cost * BigInt(paidFor)) as PicoUsd);
    expect(report.rows.map(({ day, requests, cost_usd }) => [day, requests, cost_usd])).toEqual([
      [date, paidFor, dayCost],
      [localDate(end), paidFor, dayCost],
    ]);
    const alerted = () =>
      receiver.received
        .filter((one) => one.path === path)
        .map(({ body }) => JSON.parse(body) as { type: string; data: { starts_at: string; resets_at: string } })
        .filter(({ type }) => type === "budget_exhausted")
        .map(({ data }) => data);
    while (alerted().length < 2) await new Promise((resolve) => setImmediate(resolve));
    expect(alerted().map(({ starts_at, resets_at }) => [Date.parse(starts_at), Date.parse(resets_at)])).toEqual([
      [start, end],
      [end, next?.end],
    ]);
    expect(await ledger.verify()).toMatchObject({ differences: [] });
  },
);
