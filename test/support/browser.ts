import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { machineNow } from "./daytime.ts";
import { skipWithout } from "./programs.ts";

const program = "/usr/bin/chromium";

export const withoutChromium = skipWithout("chromium");

let running: Promise<Browser> | null = null;

/**
 * Returns a headless Chromium that all visitors of this process share and that ends with it. It runs without its
 * sandbox, which containers lack; it visits only pages of this machine.
 */
function browser(): Promise<Browser> {
  running ??= chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  return running;
}

/** Ends the browser, for a program that continues without visitors. */
export async function closeBrowser(): Promise<void> {
  await (await running)?.close();
}

/**
 * False while the browser goes back from the history entry of a closed dialog. A navigation that begins meanwhile
 * would be cancelled.
 */
const hasLeftDialogs = 'history.state?.over !== "dialog" || document.querySelector("dialog[open]") !== null';

/** Returns a script that sets the time of a page forward by this many milliseconds, as `startDay` does in this process. */
const setAhead = (ms: number) => `{
  const MachineDate = Date;
  const now = () => MachineDate.now() + ${ms};
  globalThis.Date = new Proxy(MachineDate, {
    construct: (_, parts, target) => Reflect.construct(MachineDate, parts.length === 0 ? [now()] : parts, target),
    get: (_, name) => (name === "now" ? now : Reflect.get(MachineDate, name)),
  });
}`;

/** A visitor of one Farebox's pages, with a separate browser profile. */
export interface Visitor extends AsyncDisposable {
  readonly page: Page;
  /** Events that must not happen: requests to other hosts, policy violations, console lines, and errors. */
  readonly faults: string[];
}

export async function visit(origin: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await (
    await browser()
  ).newContext({ locale: "en-US", timezoneId: "UTC", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(120_000);
  const faults: string[] = [];
  const aheadMs = Date.now() - machineNow();
  if (Math.abs(aheadMs) > 100) await context.addInitScript({ content: setAhead(aheadMs) });
  const page = await context.newPage();
  await page.addInitScript({
    content:
      'addEventListener("securitypolicyviolation", (event) => console.error("forbidden by the policy:", event.violatedDirective, event.blockedURI));',
  });
  const goto = page.goto.bind(page);
  page.goto = async (...address) => {
    await page.waitForFunction(hasLeftDialogs);
    return goto(...address);
  };
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`request to another origin: ${request.url()}`);
  });
  page.on("console", (message) => faults.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`thrown: ${String(error)}`));
  return { page, faults, [Symbol.asyncDispose]: () => context.close() };
}

/** Visits the dashboard, or the page at this path below it, and signs in. */
export async function visitAs(
  token: string,
  origin: string,
  path = "",
  options?: BrowserContextOptions,
): Promise<Visitor> {
  const visitor = await visit(origin, options);
  await visitor.page.goto(`${origin}/dashboard${path}`);
  await signIn(visitor.page, token);
  return visitor;
}

/** Signs in on the current page. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Admin token or internal key").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Views" }).waitFor();
}
