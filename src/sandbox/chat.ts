import { composeAnswer } from "./answer.ts";
import { serveBench } from "./bench.ts";
import { charge, pause, refuseScenario, sendError, withScenario, type Call } from "./call.ts";
import { readChatRequest, type ChatRequest } from "./chat-request.ts";
import { consumptionOf } from "./consumption.ts";
import { faultOf, serveFault } from "./faults.ts";
import { sendAnswer } from "./plain.ts";
import { numberOf, parseScenario } from "./scenarios.ts";
import { streamAnswer } from "./stream.ts";

/** `POST /v1/chat/completions`. */
export async function serveChat(asked: Call): Promise<void> {
  if (asked.head.headers.authorization !== `Bearer ${asked.house.options.apiKey}`) return refuseKey(asked);
  if ("bench" in asked.scenario) return serveBench(asked);
  const read = readChatRequest(asked.seen.body);
  if (typeof read === "string") return sendError(asked, 400, "invalid_request_error", null, read);
  const { call, request } = settleScenario(asked, read);
  if (call === undefined) return refuseScenario(asked);
  if ("bench" in call.scenario) return serveBench(call, request);
  return serveRequest(call, request);
}

async function serveRequest(call: Call, request: ChatRequest): Promise<void> {
  const answer = composeAnswer(call, request);
  const stayed = await pause(numberOf(call.scenario, "latency") ?? call.house.options.latencyMs, call.gone);
  if (!stayed && request.stream) return undefined;
  const fault = faultOf(call.scenario, call.redirects);
  if (fault === undefined) {
    return request.stream ? streamAnswer(call, request, answer) : sendAnswer(call, request, answer);
  }
  if ("billed" in call.scenario) charge(call, consumptionOf(call, answer));
  return stayed ? serveFault(call, fault) : undefined;
}

/** Adds what the model's suffix and the last message ask for; no call where one of them names an unknown scenario. */
function settleScenario(asked: Call, read: ChatRequest): { call: Call | undefined; request: ChatRequest } {
  const plus = read.model.indexOf("+");
  const request = plus < 0 ? read : { ...read, model: read.model.slice(0, plus) };
  const more = [plus < 0 ? "" : read.model.slice(plus + 1), read.scenario ?? ""].filter((text) => text !== "").join("+");
  if (more === "") return { call: asked, request };
  const text = [more, asked.seen.scenario].filter((part) => part !== "").join("+");
  const scenario = parseScenario(text);
  return { call: scenario === null ? undefined : withScenario(asked, text, scenario), request };
}

function refuseKey(call: Call): void {
  const given = /^Bearer (.+)$/.exec(call.head.headers.authorization ?? "")?.[1];
  const message =
    given === undefined
      ? "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth."
      : `Incorrect API key provided: ${masked(given)}.`;
  sendError(call, 401, "invalid_request_error", given === undefined ? null : "invalid_api_key", message);
}

function masked(key: string): string {
  return key.length < 12 ? "***" : `${key.slice(0, 3)}***${key.slice(-4)}`;
}
