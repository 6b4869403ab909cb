import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { findPackageJSON, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join, sep } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type Exchange, type HeaderList, notForwarded, refuse, type Handler } from "../../../ports/exchange.ts";
import type { Route } from "../http-app.ts";

/** Files of packages that the page loads. Each name has its package and the path in the package. */
const vendorFiles: Readonly<Record<string, readonly [name: string, path: string]>> = {
  "preact.js": ["preact", "dist/preact.mjs"],
  "preact-hooks.js": ["preact", "hooks/dist/hooks.mjs"],
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
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".ts": "text/javascript; charset=utf-8",
  ".woff2": "font/woff2",
};

/**
 * Returns a content security policy that permits only files from this server: no inline script, no other origin, and no
 * frame around the page. `scripts` are digests of inline scripts that are still permitted: the page's import map.
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

/**
 * Redirects browsers from the proxy's address to the dashboard. Requests of other clients continue to the next route,
 * which forwards or refuses them.
 */
export const frontRoute: Route = {
  method: "get",
  path: "/",
  accepts: (_method, _path, exchange) => exchange.header("accept")?.includes("text/html") ?? false,
  handler: async (exchange) => {
    const headers: HeaderList = [
      ["location", "/dashboard"],
      ["vary", "accept"],
      ["cache-control", "no-store"],
    ];
    exchange.answer(302, headers, "");
    return notForwarded;
  },
};

/**
 * Returns the routes of `/dashboard`: the page at each of its paths, the page's own files, and files of packages. The
 * addresses of the page's own files contain a digest of all of them, so browsers load these files only once. Browsers
 * revalidate the page and the files of packages.
 */
export function dashboardRoutes({ folder }: { readonly folder: string }): readonly Route[] {
  let kept: Snapshot | undefined;
  const fileFor = async (path: string): Promise<ServedFile | undefined> => {
    const [area = "", ...rest] = path.slice("/dashboard/".length).split("/");
    if (area === "vendor") return vendorFile(rest.join("/"));
    // A path of one segment with a dot names a missing file. In a longer path, the name of a key or a model may contain
    // dots.
    if (rest.length === 0 && area.includes(".")) return undefined;
    const [digest = "", ...name] = rest;
    // Files of a checkout may change, so a request for an address that the last page did not name reads all files
    // again.
    if (area !== "assets" || kept?.digest !== digest) kept = await snapshotOf(folder, kept);
    if (area !== "assets") return pageOf(kept);
    const file = kept.files.get(moduleName((isDigest(digest) ? name : rest).join("/")));
    return file && { ...file, isFixed: kept.digest === digest };
  };
  const handler: Handler = async (exchange) => {
    const file = await fileFor(exchange.path);
    if (file === undefined)
      return refuse(exchange, { code: "not_found", message: "There is no such page; the dashboard is at /dashboard." });
    answerFile(exchange, file);
    return notForwarded;
  };
  return ["/dashboard", "/dashboard/", "/dashboard/*rest"].map((path) => ({ method: "get", path, handler }));
}

interface ServedFile {
  readonly bytes: Buffer;
  readonly type: string;
  /** True if the file at this address never changes. */
  readonly isFixed?: boolean;
  /** Compressed bytes; absent for a file that is always sent as it is. */
  readonly gzipped?: Buffer;
}

interface OwnFile extends ServedFile {
  readonly name: string;
}

/** Files of the dashboard at one time, by `moduleName`. */
interface Snapshot {
  readonly digest: string;
  readonly files: ReadonlyMap<string, OwnFile>;
}

function isDigest(text: string): boolean {
  return /^[\w-]{43}$/.test(text);
}

/**
 * Returns the name of a file with the ending .js instead of .ts. A module may be requested and stored with either
 * ending.
 */
function moduleName(name: string): string {
  return name.replace(/\.ts$/, ".js");
}

const segment = /^\w[\w.-]*$/;

/** Reads all files of the dashboard. Returns `before` if the files have not changed. */
async function snapshotOf(folder: string, before: Snapshot | undefined): Promise<Snapshot> {
  const listed = await readdir(folder, { recursive: true }).catch(() => []);
  const names = listed
    .map((name) => name.replaceAll(sep, "/"))
    .filter((name) => name.split("/").every((each) => segment.test(each)) && !name.endsWith(".d.ts"))
    // A compiled module comes after its source, and replaces it.
    .toSorted((one, other) => (one < other ? 1 : -1));
  const files = (await Promise.all(names.map((name) => ownFile(folder, name)))).filter((file) => file !== undefined);
  const parts = files.flatMap(({ name, bytes }) => [Buffer.from(`${name} ${bytes.length}\n`), bytes]);
  const digest = digestOf(Buffer.concat(parts), "base64url");
  if (before?.digest === digest) return before;
  const sent = await Promise.all(files.map((file) => compressed(asScript(file))));
  return { digest, files: new Map(sent.map((file) => [moduleName(file.name), file])) };
}

async function ownFile(folder: string, name: string): Promise<OwnFile | undefined> {
  const file = await read(join(folder, name));
  return file && { ...file, name };
}

function asScript(file: OwnFile): OwnFile {
  return file.name.endsWith(".ts") ? { ...file, bytes: Buffer.from(withoutTypes(file.bytes.toString())) } : file;
}

const compress = promisify(gzip);

/**
 * Compresses modules and style sheets. The page is not compressed: it is small, and `pageOf` changes it for each
 * answer.
 */
async function compressed(file: OwnFile): Promise<OwnFile> {
  return /^text\/(?:css|javascript)/.test(file.type) ? { ...file, gzipped: await compress(file.bytes) } : file;
}

/** Returns the page with links to all modules, so that the browser loads the modules at the same time. */
function pageOf({ digest, files }: Snapshot): ServedFile | undefined {
  const page = files.get("index.html");
  if (page === undefined) return undefined;
  const links = [...files]
    .filter(([name]) => name.endsWith(".js") && name !== "main.js")
    .map(([, { name }]) => `<link rel="modulepreload" href="/dashboard/assets/${name}" />`);
  const html = page.bytes.toString().replace("</head>", `${links.join("")}</head>`);
  return { ...page, bytes: Buffer.from(html.replaceAll("/dashboard/assets/", `/dashboard/assets/${digest}/`)) };
}

async function vendorFile(name: string): Promise<ServedFile | undefined> {
  const [packageName, path] = (Object.hasOwn(vendorFiles, name) ? vendorFiles[name] : undefined) ?? [];
  const manifest = packageName === undefined ? undefined : findPackageJSON(packageName, import.meta.url);
  if (manifest === undefined || path === undefined) return undefined;
  const found = await read(join(dirname(manifest), path));
  return found && { ...found, type: contentTypes[extname(name)] ?? found.type };
}

async function read(path: string): Promise<ServedFile | undefined> {
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

function answerFile(exchange: Exchange, { bytes, type, isFixed = false, gzipped }: ServedFile): void {
  const isPage = type.startsWith("text/html");
  const isGzipped = gzipped !== undefined && /\bgzip\b(?! *; *q=0)/.test(exchange.header("accept-encoding") ?? "");
  const body = isGzipped ? gzipped : bytes;
  const etag = `"${digestOf(body, "base64url")}"`;
  const headers: HeaderList = [
    ["content-type", type],
    ...(gzipped === undefined ? [] : [["vary", "accept-encoding"] as const]),
    ...(isGzipped ? [["content-encoding", "gzip"] as const] : []),
    ["cache-control", isFixed ? "public, max-age=31536000, immutable" : "no-cache"],
    ["etag", etag],
    ["content-security-policy", isPage ? policy(importMapDigests(bytes.toString("utf8"))) : plainPolicy],
    ["x-content-type-options", "nosniff"],
    ["referrer-policy", "no-referrer"],
    ["cross-origin-opener-policy", "same-origin"],
    ["cross-origin-resource-policy", "same-origin"],
  ];
  const isUnchanged = exchange.header("if-none-match")?.split(/, */).includes(etag) ?? false;
  exchange.answer(isUnchanged ? 304 : 200, headers, isUnchanged ? "" : body);
}

/**
 * Returns the digests of a page's import maps. An import map must be inline, and the policy permits only scripts with
 * these digests.
 */
function importMapDigests(html: string): string[] {
  return [...html.matchAll(/<script type="importmap">([^]*?)<\/script>/g)].map(
    ([, text = ""]) => `'sha256-${digestOf(Buffer.from(text), "base64")}'`,
  );
}

function digestOf(bytes: Buffer, encoding: "base64" | "base64url"): string {
  return createHash("sha256").update(bytes).digest(encoding);
}

/** Converts a TypeScript module to JavaScript with the same lines and columns, as Node does when it runs one. */
function withoutTypes(source: string): string {
  const { emitWarning } = process;
  // The warning that `stripTypeScriptTypes` is experimental is hidden: a checkout depends on the function anyway, and
  // the package never calls it.
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}
