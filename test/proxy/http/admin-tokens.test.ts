import { describe, expect, it } from "vitest";
import { addAdmin, callAdmin } from "../../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const settings = "from-the-settings-0123456789";

const message = (text: string) => ({ error: { message: text } });

async function create(proxy: RunningProxy, token: string, body: object) {
  const { status, json } = await callAdmin(proxy.url, "POST", "/admins", { token, body });
  return { status, json: json as { token: string; error?: object } };
}

const revoke = (proxy: RunningProxy, token: string, name: string) =>
  callAdmin(proxy.url, "POST", `/admins/${name}/revoke`, { token });

const namesAt = async (proxy: RunningProxy, token: string, query = "") => {
  const { json } = await callAdmin(proxy.url, "GET", `/admins${query}`, { token });
  const { admins, next } = json as { admins: { name: string; state: string }[]; next: string | null };
  return { names: admins.map(({ name, state }) => `${name} ${state}`), next };
};

describe("admin tokens over the API", () => {
  it("are created, listed in pages, and revoked at once", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: settings } });
    const editor = await create(proxy, settings, { name: "edward", role: "editor" });
    expect(editor.status).toBe(201);
    const { token } = editor.json;
    const viewer = await create(proxy, token, { name: "vera", role: "viewer", expires: "30d" });
    expect(viewer.json).toMatchObject({ role: "viewer", token: expect.stringMatching(/^sk-fba-/) });
    expect((await create(proxy, token, { name: "vera", role: "viewer" })).status).toBe(409);
    expect((await create(proxy, token, { name: "env", role: "viewer" })).status).toBe(400);
    expect((await create(proxy, viewer.json.token, { name: "mallory", role: "editor" })).status).toBe(403);
    expect((await revoke(proxy, viewer.json.token, "edward")).status).toBe(403);
    expect(await namesAt(proxy, viewer.json.token)).toEqual({ names: ["edward live", "vera live"], next: null });
    const first = await namesAt(proxy, token, "?limit=1");
    expect(first.names).toEqual(["edward live"]);
    expect((await namesAt(proxy, token, `?limit=1&cursor=${first.next}`)).names).toEqual(["vera live"]);
    expect((await namesAt(proxy, token, "?q=VER")).names).toEqual(["vera live"]);
    expect((await callAdmin(proxy.url, "GET", "/admins?cursor=x", { token })).status).toBe(400);

    expect((await revoke(proxy, token, "vera")).status).toBe(200);
    expect((await callAdmin(proxy.url, "GET", "/whoami", { token: viewer.json.token })).status).toBe(401);
    expect((await revoke(proxy, token, "vera")).json).toMatchObject({ state: "revoked" });
    expect((await revoke(proxy, token, "nina")).status).toBe(404);
    const audit = await callAdmin(proxy.url, "GET", "/audit?object=admin:vera", { token });
    expect((audit.json as { entries: object[] }).entries).toMatchObject([
      { by: "edward", action: "admins.revoke" },
      { by: "edward", action: "admins.create", before: null },
    ]);
    expect(audit.text).not.toContain(viewer.json.token.slice(-20));
    // The holder of the settings' token is an editor, so the last other editor can be revoked.
    expect((await revoke(proxy, settings, "edward")).status).toBe(200);
  });

  it("do not outlive the token that created them", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: settings } });
    const { json } = await create(proxy, settings, { name: "guest", role: "editor", expires: "2d" });
    for (const expires of [undefined, null, "3d"]) {
      const reply = await create(proxy, json.token, { name: "heir", role: "viewer", expires });
      expect([reply.status, reply.json]).toMatchObject([
        400,
        message(
          expect.stringMatching(
            /^Expires must state a lifetime that ends by .*Z, because your own token expires then\.$/,
          ),
        ),
      ]);
    }
    expect((await create(proxy, json.token, { name: "heir", role: "editor", expires: "1d" })).status).toBe(201);
    // Tokens that a dashboard session creates do not outlive it either.
    const signedIn = await fetch(`${proxy.url}/dashboard/session`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: proxy.url, "x-farebox-dashboard": "1" },
      body: JSON.stringify({ token: json.token }),
    });
    const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? "";
    const asSession = (body: object) =>
      fetch(`${proxy.url}/admin/v1/admins`, {
        method: "POST",
        headers: { "content-type": "application/json", origin: proxy.url, "x-farebox-dashboard": "1", cookie },
        body: JSON.stringify(body),
      });
    expect((await asSession({ name: "ghost", role: "editor" })).status).toBe(400);
    expect((await asSession({ name: "ghost", role: "editor", expires: "1d" })).status).toBe(201);
    expect((await namesAt(proxy, settings)).names).toEqual(["guest live", "heir live", "ghost live"]);
  });

  it("always include a non-expiring editor", async () => {
    await using proxy = await startProxy();
    const edward = await addAdmin(proxy.database, "edward", "editor");
    await addAdmin(proxy.database, "vera", "viewer");
    const refused = await revoke(proxy, edward, "edward");
    expect([refused.status, refused.json]).toMatchObject([
      409,
      message(
        "The admin edward is the last editor whose token does not expire; create another one first, or run 'farebox admins revoke edward' on the proxy's machine.",
      ),
    ]);
    const { json } = await create(proxy, edward, { name: "emma", role: "editor" });
    expect((await revoke(proxy, edward, "edward")).status).toBe(200);
    expect((await revoke(proxy, json.token, "emma")).status).toBe(409);
    expect((await revoke(proxy, json.token, "vera")).status).toBe(200);
  });
});
