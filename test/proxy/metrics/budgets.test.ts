import { expect, it } from "vitest";
import { callAdmin } from "../../support/admin-client.ts";
import { readPage } from "../../support/metrics-page.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "an-editor-s-token-for-the-metrics-0123456789";

it.each([
  ["0", ["each-model=gpt-4o: 5", "key:alice: 2.5"]],
  ["1", ["each-model=gpt-4o: 5", "each-user=: 3", "each-user=other: 3", "each-user=u_1: 3", "key:alice: 2.5"]],
])("budget metrics include raises, and users up to FAREBOX_METRICS_SUBJECTS: %s", async (subjects, expected) => {
  await using proxy = await startProxy({
    env: { FAREBOX_ADMIN_TOKEN: token, FAREBOX_METRICS_SUBJECTS: subjects },
  });
  await proxy.budget("key:alice", "1");
  await proxy.budget("each-model", "5");
  await proxy.budget("each-user", "3", "total", "soft");
  const body = { scope: "key:alice", period: "total", amount_usd: "1.5", why: "a demo" };
  expect((await callAdmin(proxy.url, "POST", "/budgets/raises", { token, body })).status).toBe(201);
  for (const user of ["u_1", "u_2", undefined]) expect((await proxy.chat({ user })).status).toBe(200);
  await proxy.charges();
  const limits = readPage(await proxy.metrics()).get("farebox_budget_limit_usd")?.samples ?? [];
  expect(limits.map(({ labels, value }) => `${labels["scope"]}: ${value}`).sort()).toEqual(expected);
});
