import { expect, it } from "vitest";
import { createSeal } from "../../../../src/gateway/webhooks/seal.ts";

const text = Buffer.from("https://user:pass@client.example/hook and a secret");

it("a sealed text opens only with the same key and for the same purpose", () => {
  const seal = createSeal("gateway-key");
  const sealed = seal.close(text, "callback of 1");
  expect(createSeal("gateway-key").open(sealed, "callback of 1")).toEqual(text);
  expect(seal.open(sealed, "callback of 2")).toBeUndefined();
  expect(createSeal("another-key").open(sealed, "callback of 1")).toBeUndefined();
});

it("a sealed text and its digest hide the text, and the same text is sealed differently each time", () => {
  const seal = createSeal("gateway-key");
  const [one, other] = [seal.close(text, "p"), seal.close(text, "p")];
  expect(one).not.toBe(other);
  for (const sealed of [one, other])
    expect(Buffer.from(sealed.slice(3), "base64url").includes("client.example")).toBe(false);
  const digests = [
    seal.digestOf("https://client.example"),
    seal.digestOf("https://client.example"),
    createSeal("k").digestOf("https://client.example"),
  ];
  expect([digests[0] === digests[1], digests[0] === digests[2]]).toEqual([true, false]);
  expect(digests[0]).toMatch(/^[0-9a-f]{32}$/);
});

it("a text that was changed, cut or never sealed does not open", () => {
  const seal = createSeal("gateway-key");
  const sealed = seal.close(text, "p");
  const bytes = Buffer.from(sealed.slice(3), "base64url");
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(seal.open(`v1.${changed.toString("base64url")}`, "p")).toBeUndefined();
  }
  for (const wrong of ["", "v1.", "v2.abc", sealed.slice(0, 20), sealed.slice(0, -8), text.toString()])
    expect(seal.open(wrong, "p")).toBeUndefined();
});
