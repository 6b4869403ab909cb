import { breakOff, send, sendError, sendJson, type Call } from "./call.ts";
import { untilGone } from "./pause.ts";
import { numberOf, type Scenario, type ScenarioName } from "./scenarios.ts";

const faults = [
  "reset-before",
  "silent",
  "redirect-307",
  "redirect-foreign",
  "redirect-loop",
  "status",
  "early-response",
  "html",
  "empty",
  "bad-json",
] as const satisfies readonly ScenarioName[];

/**
 * Returns the scenario that replaces the answer; undefined if none does. `redirect-307` and `redirect-foreign` redirect
 * only once.
 */
export function faultOf(scenario: Scenario, redirects: number): (typeof faults)[number] | undefined {
  return faults.find(
    (name) => name in scenario && !(redirects > 0 && (name === "redirect-307" || name === "redirect-foreign")),
  );
}

/** Serves a fault in place of the answer. */
export async function serveFault(call: Call, fault: (typeof faults)[number]): Promise<void> {
  const { scenario } = call;
  switch (fault) {
    case "reset-before":
      return breakOff(call, "reset");
    case "silent":
      return untilGone(call.gone);
    case "redirect-307":
    case "redirect-loop":
      return redirect(call, `/moved/${call.redirects + 1}${call.path}`);
    case "redirect-foreign":
      return redirect(call, scenario["redirect-foreign"] || foreignAddress(call));
    case "status":
      return sendStatus(call, numberOf(scenario, "status") ?? 500);
    case "early-response":
      return sendStatus(call, numberOf(scenario, "early-response") ?? 413);
    case "html":
      return sendHtml(call, numberOf(scenario, "html") ?? 502);
    case "empty":
      return send(call, 200, {}, "");
    case "bad-json":
      return send(call, 200, { "content-type": "application/json" }, '{"id":"chatcmpl-1","object":"chat.comp');
  }
}

function redirect(call: Call, location: string): void {
  send(call, 307, { location, "content-type": "text/plain" }, "Temporary Redirect");
}

/** Returns the sandbox's address under another host name, to test clients that follow redirects to another origin. */
function foreignAddress(call: Call): string {
  const url = call.shared.url();
  url.hostname = url.hostname === "localhost" ? "127.0.0.1" : "localhost";
  url.pathname = `/moved/${call.redirects + 1}${call.path}`;
  return url.href;
}

/** Error type, code and message by status. */
const errors: Readonly<Record<number, readonly [type: string, code: string | null, message: string]>> = {
  400: ["invalid_request_error", null, "Invalid request."],
  401: ["invalid_request_error", "invalid_api_key", "Incorrect API key provided."],
  402: ["insufficient_quota", "insufficient_quota", "Your account balance is insufficient."],
  403: ["invalid_request_error", "forbidden", "Your account has no access to this model."],
  404: ["invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."],
  413: ["invalid_request_error", null, "The request is too large."],
  429: ["requests", "rate_limit_exceeded", "Rate limit reached. Please try again later."],
  500: ["server_error", null, "The server had an error while processing your request."],
  502: ["server_error", null, "Bad gateway."],
  503: ["server_error", "overloaded", "The engine is currently overloaded, please try again later."],
  504: ["server_error", null, "The upstream did not answer in time."],
};

/** Sends an error with this status, in the form of the endpoint. */
function sendStatus(call: Call, status: number): void {
  const [type, code, message] = errors[status] ?? ["server_error", null, `The request failed with status ${status}.`];
  if (status === 524) return send(call, 524, { "content-type": "text/plain; charset=UTF-8" }, "error code: 524");
  const text =
    "echo-key" in call.scenario ? `${message} You called with ${call.head.headers.authorization ?? ""}` : message;
  if (call.path.startsWith("/account")) return sendJson(call, status, { code: status, data: null, message: text });
  return sendError(call, status, type, code, text, status === 429 ? { "retry-after": "1" } : {});
}

function sendHtml(call: Call, status: number): void {
  const title = status === 200 ? "Just a moment..." : `${status} Bad Gateway`;
  const page = `<!DOCTYPE html>\n<html>\n<head><title>${title}</title></head>\n<body>\n<center><h1>${title}</h1></center>\n<hr><center>nginx</center>\n</body>\n</html>\n`;
  send(call, status, { "content-type": "text/html; charset=UTF-8" }, page);
}
