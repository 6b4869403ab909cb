import { h, type ComponentChildren, type JSX } from "preact";

/*
 * Functions that create elements, such as `div({ class: "card" }, "text")`. TypeScript checks the attributes without a JSX
 * compiler.
 */

export type Children = ComponentChildren;
export type View = JSX.Element;

type Names = keyof JSX.IntrinsicElements;
export type Attributes<Name extends Names> = JSX.IntrinsicElements[Name];

function element<Name extends Names>(name: Name) {
  return (attributes: Attributes<Name> | null, ...children: Children[]): View =>
    h(name as string, attributes as Record<string, unknown> | null, ...children);
}

export const a = element("a");
export const article = element("article");
export const button = element("button");
export const caption = element("caption");
export const code = element("code");
export const data = element("data");
export const datalist = element("datalist");
export const dd = element("dd");
export const details = element("details");
export const dialog = element("dialog");
export const div = element("div");
export const dl = element("dl");
export const dt = element("dt");
export const footer = element("footer");
export const form = element("form");
export const h1 = element("h1");
export const h2 = element("h2");
export const h3 = element("h3");
export const header = element("header");
export const input = element("input");
export const label = element("label");
export const li = element("li");
export const main = element("main");
export const nav = element("nav");
export const ol = element("ol");
export const option = element("option");
export const p = element("p");
export const path = element("path");
export const pre = element("pre");
export const section = element("section");
export const select = element("select");
export const small = element("small");
export const span = element("span");
export const strong = element("strong");
export const summary = element("summary");
export const svg = element("svg");
export const table = element("table");
export const tbody = element("tbody");
export const td = element("td");
export const tfoot = element("tfoot");
export const th = element("th");
export const thead = element("thead");
export const time = element("time");
export const tr = element("tr");
export const ul = element("ul");

/** Joins class names. Leaves out values that are false, null or undefined. */
export function classes(...names: (string | false | null | undefined)[]): string {
  return names.filter((name) => typeof name === "string" && name !== "").join(" ");
}
