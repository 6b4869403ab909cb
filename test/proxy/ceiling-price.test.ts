import { utc } from "../support/ledger-fixtures.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chargeJson } from "../../src/reporting/charges.ts";
import { runReport } from "../../src/reporting/report.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";

const ceiling = `default:
  group: official
  context_tokens: 200000
  max_output_tokens: 1000
  prices:
    - { from: 2026-01-01, source: "our ceiling", official: { input: "50.00", output: "200.00" } }
`;

const owned = new AsyncDisposableStack();
let proxy: RunningProxy;
beforeAll(async () => {
  const { path } = owned.use(priceFolder(ceiling));
  proxy = owned.use(await startProxy({ env: { FAREBOX_PRICING: path } }));
});
afterAll(() => owned.disposeAsync());

describe("the ceiling price of unknown models", () => {
  it("is marked in the answer, the charge, the report and the metrics, unlike known prices", async () => {
    const unknown = await proxy.chat({ model: "never-heard-of" });
    const known = await proxy.chat({ model: "gpt-4o-2024-11-20" });
    await Promise.all([unknown.text(), known.text()]);
    expect(unknown.headers.get("x-farebox-price")).toBe("default");
    expect(known.headers.get("x-farebox-price")).toBeNull();

    const charges = (await proxy.charges()).map((charge) => chargeJson(charge, (id) => id));
    expect(charges).toMatchObject([
      { model: "never-heard-of", group: "default", cost_usd: unknown.headers.get("x-farebox-cost-usd") },
      { model: "gpt-4o-2024-11-20", group: "large-general" },
    ]);

    const report = await runReport(
      { ...proxy.serving, calendar: utc, nameOf: (id) => id },
      { by: ["model"], since: 0, until: Date.now() + 1 },
    );
    expect(report.ceiling_price).toEqual({ requests: 1, cost_usd: charges[0]?.cost_usd });

    const metrics = await proxy.metrics();
    expect(metrics).toMatch(/^farebox_cost_usd_total\{model="default",group="default",source="reported"\} 0\.\d+$/m);
    expect(metrics).not.toMatch(/model="gpt-4o",group="default"/);
  });

  it("keeps the requested and the served model name in the charge", async () => {
    const [unknown, known] = await proxy.charges();
    expect(unknown).toMatchObject({ model: "never-heard-of", servedModel: "never-heard-of" });
    expect(known).toMatchObject({ model: "gpt-4o-2024-11-20", servedModel: expect.stringMatching(/^gpt-4o/) });
  });

  it("admits an unknown model under a hard budget within its limit", async () => {
    const key = await proxy.addKey("bounded");
    await proxy.budget("key:bounded", "1.00");
    const answer = await proxy.chat({ model: "never-heard-of", max_tokens: 10 }, { key });
    expect(answer.status).toBe(200);
    await answer.text();
    const refused = await proxy.chat({ model: "never-heard-of", n: 20 }, { key });
    expect(refused.status).toBe(402);
    await refused.text();
  });

  it("does not add a model to the model list or lookup", async () => {
    const headers = { authorization: `Bearer ${proxy.key}` };
    const list = (await (await fetch(`${proxy.url}/v1/models`, { headers })).json()) as { data: { id: string }[] };
    expect(list.data.map(({ id }) => id)).not.toContain("default");
    expect((await fetch(`${proxy.url}/v1/models/never-heard-of`, { headers })).status).toBe(404);
  });
});
