import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { findPackageJSON, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join } from "node:path";
import type { Exchange, HeaderList } from "../../../ports/exchange.ts";
import { notForwarded, refuse, type Handler } from "../../../request/handler.ts";
import type { Route } from "../http-app.ts";

/** Files of packages that the page loads. Each name has its package and the path in the package. */
const vendorFiles: Readonly<Record<string, readonly [name: string, path: string]>> = {
  "preact.js": ["preact", "dist/preact.mjs"],
  "preact-hooks.js": ["preact", "hooks/dist/hooks.mjs"],
  "preact-jsx-runtime.js": ["preact", "jsx-runtime/dist/jsxRuntime.mjs"],
  "uplot.js": ["uplot", "dist/uPlot.esm.js"],
  "uplot.css": ["uplot", "dist/uPlot.min.css"],
  ...Object.fromEntries(
    ["latin", "latin-ext", "cyrillic", "cyrillic-ext", "vietnamese"].map((subset) => {
      const name = `geist-${subset}-wght-normal.woff2`;
      return [name, ["@fontsource-variable/geist", `files/${name}`] as const];
    }),
  ),
};

/** Content types by file ending; other endings are not served. */
const contentTypes: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".ts": "text/javascript; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
};

/**
 * Returns a policy that permits only files from this server: no inline script, no other origin, and no frame around the
 * page. `scripts` are digests of inline scripts that are still permitted: the page's import map.
 */
function policy(scripts: readonly string[]): string {
  const self = ["style-src", "img-src", "font-src", "connect-src", "manifest-src", "form-action"].map(
    (name) => `${name} 'self'`,
  );
  return [
    "default-src 'none'",
    ["script-src 'self'", ...scripts].join(" "),
    ...self,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

const plainPolicy = policy([]);

/** Serves `/dashboard`: the page at each of its paths, its files, and files of packages. Browsers revalidate each file. */
export function dashboardRoutes({ folder }: { readonly folder: string }): readonly Route[] {
  const handler: Handler = async (exchange) => {
    const file = await fileFor(exchange.path, folder);
    if (file === undefined)
      return refuse(exchange, { code: "not_found", message: "There is no such page; the dashboard is at /dashboard." });
    answerFile(exchange, file);
    return notForwarded;
  };
  return ["/dashboard", "/dashboard/", "/dashboard/*rest"].map((path) => ({ method: "get", path, handler }));
}

interface Found {
  readonly bytes: Buffer;
  readonly type: string;
}

async function fileFor(path: string, folder: string): Promise<Found | undefined> {
  const [area = "", ...rest] = path.slice("/dashboard/".length).split("/");
  if (area === "assets") return ownFile(folder, rest);
  if (area === "vendor") return vendorFile(rest.join("/"));
  return path.includes(".") ? undefined : ownFile(folder, ["index.html"]);
}

const segment = /^\w[\w.-]*$/;

/** Returns a file of the dashboard. A module may be requested as .js or .ts; either is answered from the file that exists. */
async function ownFile(folder: string, segments: readonly string[]): Promise<Found | undefined> {
  if (segments.length === 0 || !segments.every((each) => segment.test(each))) return undefined;
  const path = join(folder, ...segments);
  const ending = extname(path);
  if (ending !== ".js" && ending !== ".ts") return read(path);
  const stem = path.slice(0, -ending.length);
  const compiled = await read(`${stem}.js`);
  if (compiled !== undefined || stem.endsWith(".d")) return compiled;
  const written = await read(`${stem}.ts`);
  return written && { ...written, bytes: Buffer.from(withoutTypes(written.bytes.toString("utf8"))) };
}

async function vendorFile(name: string): Promise<Found | undefined> {
  const [packageName, path] = (Object.hasOwn(vendorFiles, name) ? vendorFiles[name] : undefined) ?? [];
  const manifest = packageName === undefined ? undefined : findPackageJSON(packageName, import.meta.url);
  if (manifest === undefined || path === undefined) return undefined;
  const found = await read(join(dirname(manifest), path));
  return found && { ...found, type: contentTypes[extname(name)] ?? found.type };
}

async function read(path: string): Promise<Found | undefined> {
  const type = contentTypes[extname(path)] ?? (path.endsWith(".mjs") ? contentTypes[".js"] : undefined);
  if (type === undefined) return undefined;
  try {
    return { bytes: await readFile(path), type };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return undefined;
    throw error;
  }
}

function answerFile(exchange: Exchange, { bytes, type }: Found): void {
  const isPage = type.startsWith("text/html");
  const etag = `"${digest(bytes, "base64url")}"`;
  const headers: HeaderList = [
    ["content-type", type],
    ["cache-control", "no-cache"],
    ["etag", etag],
    ["content-security-policy", isPage ? policy(importMaps(bytes.toString("utf8"))) : plainPolicy],
    ["x-content-type-options", "nosniff"],
    ["referrer-policy", "no-referrer"],
    ["cross-origin-opener-policy", "same-origin"],
    ["cross-origin-resource-policy", "same-origin"],
  ];
  const known = exchange.header("if-none-match")?.split(/, */).includes(etag) ?? false;
  exchange.answer(known ? 304 : 200, headers, known ? "" : bytes);
}

/**
 * Returns the digests of a page's import maps. An import map must be inline, and the policy permits only scripts with these
 * digests.
 */
function importMaps(html: string): string[] {
  return [...html.matchAll(/<script type="importmap">([^]*?)<\/script>/g)].map(
    ([, text = ""]) => `'sha256-${digest(Buffer.from(text), "base64")}'`,
  );
}

function digest(bytes: Buffer, encoding: "base64" | "base64url"): string {
  return createHash("sha256").update(bytes).digest(encoding);
}

/** Returns the JavaScript of a module, with the same lines and columns. Node runs a module in the same form. */
function withoutTypes(source: string): string {
  const { emitWarning } = process;
  // The warning that this function is experimental is hidden: a checkout depends on the function anyway, and the package
  // never calls it.
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
