import { expect, it } from "vitest";
import { adminRoutes } from "../../../src/server/http/admin/routes.ts";
import { startProxy } from "../../support/running-proxy.ts";

const token = "the-token-of-the-admin-api-in-tests";

it("a time span that ends before it begins is refused by every route", async () => {
  await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: token } });
  const spans = adminRoutes("1").filter(
    ({ query }) => query !== null && "since" in query.shape && "until" in query.shape,
  );
  expect(spans.map(({ path }) => path).toSorted()).toEqual([
    "/audit",
    "/charges",
    "/overview",
    "/reconciliation",
    "/refusals",
    "/refusals/causes",
    "/sessions",
    "/usage",
  ]);
  const lists = spans.filter(({ csv }) => csv !== null).map(({ path }) => path);
  expect(lists.toSorted()).toEqual(["/audit", "/charges", "/refusals"]);
  const own = ["/charges", "/refusals", "/refusals/causes", "/overview"];
  const get = async (path: string, query: string, bearer: string) => {
    const answer = await fetch(`${proxy.url}${path}?${query}`, { headers: { authorization: `Bearer ${bearer}` } });
    return { path, query, status: answer.status, text: await answer.text() };
  };
  const getAll = (query: string) => [
    ...spans.map(({ path }) => get(`/admin/v1${path}`, query, token)),
    ...lists.map((path) => get(`/admin/v1${path}`, `${query}&format=csv`, token)),
    ...own.map((path) => get(`/v1/farebox${path}`, query, proxy.key)),
    ...["/charges", "/refusals"].map((path) => get(`/v1/farebox${path}`, `${query}&format=csv`, proxy.key)),
  ];
  for (const { path, query, status, text } of await Promise.all(getAll("since=1d&until=2d"))) {
    expect([path, query, status]).toEqual([path, query, 400]);
    expect(JSON.parse(text)).toMatchObject({
      error: { param: "until", message: 'Until must not be before since: "2d" is before "1d".' },
    });
  }
  for (const { path, query, status } of await Promise.all(getAll("since=2d&until=1d")))
    // A reconciliation needs two samples of the account.
    expect([path, query, status]).toEqual([path, query, path.endsWith("reconciliation") ? 409 : 200]);
});
