import { expect, it } from "vitest";
import { createSeal } from "../../../../src/gateway/webhooks/seal.ts";

const text = Buffer.from("https://user:pass@client.example/hook and a secret");

it("opens what it closed, with the same key and for the same purpose alone", () => {
  const seal = createSeal("gateway-key");
  const sealed = seal.close(text, "callback of 1");
  expect(createSeal("gateway-key").open(sealed, "callback of 1")).toEqual(text);
  expect(seal.open(sealed, "callback of 2")).toBeUndefined();
  expect(createSeal("another-key").open(sealed, "callback of 1")).toBeUndefined();
});

it("reveals nothing of the text, and never seals it to the same bytes twice", () => {
  const seal = createSeal("gateway-key");
  const [one, other] = [seal.close(text, "p"), seal.close(text, "p")];
  expect(one).not.toBe(other);
  for (const sealed of [one, other])
    expect(Buffer.from(sealed.slice(3), "base64url").includes("client.example")).toBe(false);
  const names = [
    seal.nameOf("https://client.example"),
    seal.nameOf("https://client.example"),
    createSeal("k").nameOf("https://client.example"),
  ];
  expect([names[0] === names[1], names[0] === names[2]]).toEqual([true, false]);
  expect(names[0]).toMatch(/^[0-9a-f]{32}$/);
});

it("does not open what was changed, cut or never sealed", () => {
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
