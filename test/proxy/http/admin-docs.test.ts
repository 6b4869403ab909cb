import { describe, expect, it } from "vitest";
import { z } from "zod";
import { addAdmin, callAdmin } from "../../support/admin-client.ts";
import { startProxy } from "../../support/running-proxy.ts";

describe("the OpenAPI document", () => {
  it("has schemas that the answers to GET requests match", async () => {
    await using proxy = await startProxy();
    const token = await addAdmin(proxy.database, "vera", "viewer");
    await proxy.budget("each-key", "5", "1d");
    await (await proxy.chat({})).arrayBuffer();
    await proxy.serving.settled();
    type Operation = {
      readonly responses: Record<string, { readonly content: Record<string, { readonly schema: object }> }>;
    };
    const { json } = await callAdmin(proxy.url, "GET", "/openapi.json", { token });
    const { paths } = json as { readonly paths: Record<string, { readonly get?: Operation }> };
    const asked = Object.entries(paths).flatMap(([path, { get }]) =>
      get === undefined || path.includes("{") || path.endsWith("/reconciliation") ? [] : [{ path, get }],
    );
    expect(asked.length).toBeGreaterThan(8);
    for (const { path, get } of asked) {
      const reply = await callAdmin(proxy.url, "GET", path.replace("/admin/v1", ""), { token });
      const schema = z.fromJSONSchema(get.responses["200"]?.content["application/json"]?.schema as never);
      expect([path, reply.status, schema.safeParse(reply.json).error?.issues ?? []]).toEqual([path, 200, []]);
      expect([path, schema.safeParse("nothing").success]).toEqual([path, false]);
    }
  });
});
