import { expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { documents } from "../../support/documents.ts";
import { gatewayDocument } from "../../support/gateway-document.ts";

const routes = endpoints.map(({ route }) => route);

it("docs/gateway-openapi.yaml has every metered endpoint", () => {
  const paths = Object.keys(gatewayDocument.paths);
  expect(routes.filter((route) => !paths.includes(route))).toEqual([]);
});

it("docs/endpoints.md names every metered endpoint, in full or by its last segment", () => {
  const [, section = ""] = (documents.get("docs/endpoints.md") ?? "").split("## Metered endpoints");
  const named = [...section.matchAll(/^\| (`POST [^|]*) \|/gm)].flatMap(([, cell = ""]) => {
    const [, first = ""] = /`POST ([^`]+)`/.exec(cell) ?? [];
    const others = [...cell.matchAll(/`([a-z]+)`/g)].map(([, name = ""]) => first.replace(/[^/]+$/, name));
    return [first, ...others];
  });
  expect(named.toSorted()).toEqual(routes.toSorted());
});
