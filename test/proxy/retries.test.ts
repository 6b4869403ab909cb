import { utc } from "../support/ledger-fixtures.ts";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { runReport } from "../../src/reporting/report.ts";
import { startProxy } from "../support/running-proxy.ts";

it("a retry of the openai client is counted in the metrics and in the report", async () => {
  let requests = 0;
  await using proxy = await startProxy({ sandbox: { scenario: () => (++requests === 2 ? "status:500" : undefined) } });
  const client = new OpenAI({
    apiKey: proxy.key,
    baseURL: `${proxy.url}/v1`,
    organization: null,
    project: null,
    logLevel: "off",
  });
  const chat = () =>
    client.chat.completions.create({
      model: "gpt-4o",
      messages: [{ role: "user", content: "Say hello." }],
      max_tokens: 20,
    });
  const retriesCounted = async () =>
    /^farebox_client_retries_total\{model="gpt-4o"\} (\d+)$/m.exec(await proxy.metrics())?.[1];

  await chat();
  expect(await retriesCounted()).toBe("0");
  await chat();
  expect((await proxy.charges()).map(({ status, retry }) => [status, retry])).toEqual([
    [200, 0],
    [500, 0],
    [200, 1],
  ]);
  expect(proxy.sandbox.requests.map(({ headers }) => headers["x-stainless-retry-count"])).toEqual(["0", "0", "1"]);
  expect(await retriesCounted()).toBe("1");
  const { ledger } = proxy.serving;
  const { total } = await runReport(
    { ...proxy.serving, calendar: utc, nameOf: (id) => id },
    { by: ["model"], since: 0, until: Date.now() + 1 },
  );
  expect(total.retries).toBe(1);
  expect((await ledger.verify()).differences).toEqual([]);
});
