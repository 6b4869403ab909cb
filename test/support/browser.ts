import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { skipWithout } from "./programs.ts";

const program = "/usr/bin/chromium";

export const withoutChromium = skipWithout(program, "chromium");

let running: Promise<Browser> | null = null;

/**
 * A real Chromium without a window, one for all visitors of this process; it ends with the process. A container has no sandbox
 * for it, and it sees pages of this machine only.
 */
function browser(): Promise<Browser> {
  running ??= chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  return running;
}

/** For a program that goes on without visitors. */
export async function closeBrowser(): Promise<void> {
  await (await running)?.close();
}

/** Somebody before a page of one Farebox, in a browser profile of their own. */
export interface Visitor extends AsyncDisposable {
  readonly page: Page;
  /** Events that must not happen: a request to elsewhere, a violation of the policy, a line on the console, an error. */
  readonly faults: string[];
}

export async function visit(origin: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await (
    await browser()
  ).newContext({ locale: "en-US", timezoneId: "UTC", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(20_000);
  const faults: string[] = [];
  const page = await context.newPage();
  await page.addInitScript({
    content:
      'addEventListener("securitypolicyviolation", (event) => console.error("forbidden by the policy:", event.violatedDirective, event.blockedURI));',
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`asked elsewhere: ${request.url()}`);
  });
  page.on("console", (message) => faults.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`thrown: ${String(error)}`));
  return { page, faults, [Symbol.asyncDispose]: () => context.close() };
}

/** Signs in on the page that is shown. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Admin token or internal key").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Views" }).waitFor();
}
