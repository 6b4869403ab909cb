import { composeAnswer, type Answer } from "./answer.ts";
import { serveBench } from "./bench.ts";
import { charge, hasBearerKey, refuseScenario, sendError, withScenario, type Call } from "./call.ts";
import { pause } from "./pause.ts";
import { readChatRequest, type ChatRequest, type Fields } from "./chat-request.ts";
import { completionOf } from "./completion.ts";
import type { Consumption } from "./billing.ts";
import { consumptionOf } from "./consumption.ts";
import { faultOf, serveFault } from "./faults.ts";
import { sendAnswer } from "./plain.ts";
import { numberOf, parseScenario, type Scenario } from "./scenarios.ts";
import { streamEvents, type StreamEvent } from "./stream-events.ts";
import { streamAnswer } from "./stream.ts";

/** Functions of a text endpoint that read its requests and write its answers. */
export interface TextForm {
  /** Parses the body. Returns an error message if it is not a valid request. */
  read(body: Buffer): ChatRequest | string;
  body(answer: Answer, request: ChatRequest): Fields;
  events(answer: Answer, request: ChatRequest, scenario: Scenario): Iterable<StreamEvent>;
}

const chatForm: TextForm = { read: readChatRequest, body: completionOf, events: streamEvents };

/** Serves `POST /v1/chat/completions`. */
export function serveChat(asked: Call): Promise<void> {
  if (!("bench" in asked.scenario)) return serveText(asked, chatForm);
  return hasBearerKey(asked) ? serveBench(asked) : Promise.resolve();
}

/** Serves a text endpoint. `form` reads its requests and writes its answers. */
export async function serveText(asked: Call, form: TextForm): Promise<void> {
  const accepted = accept(asked, () => form.read(asked.seen.body));
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  if ("bench" in call.scenario) return serveBench(call, request);
  const answer = composeAnswer(call, request);
  const write = () =>
    request.stream
      ? streamAnswer(call, form.events(answer, request, call.scenario), (written) =>
          consumptionOf(call, answer, written),
        )
      : sendAnswer(call, answer, form.body(answer, request));
  return answerOrFault(call, request.stream, consumptionOf(call, answer), write);
}

/** Waits for the latency, then sends the answer or the fault that replaces it. */
export async function answerOrFault(
  call: Call,
  stream: boolean,
  consumption: Consumption | undefined,
  write: () => Promise<void>,
): Promise<void> {
  const stayed = await pause(numberOf(call.scenario, "latency") ?? call.shared.options.latencyMs, call.gone);
  if (!stayed && stream) return undefined;
  const fault = faultOf(call.scenario, call.redirects);
  if (fault === undefined) return write();
  if ("billed" in call.scenario && consumption !== undefined) charge(call, consumption);
  return stayed ? serveFault(call, fault) : undefined;
}

/** Request with the scenario that its text states. */
interface Marked {
  readonly model: string;
  readonly scenario: string | undefined;
}

/**
 * Applies the scenarios that the model's suffix and the request's text state, and removes the suffix from the model.
 * The call is undefined if a scenario is unknown.
 */
export function resolveScenario<Request extends Marked>(
  asked: Call,
  read: Request,
): { call: Call | undefined; request: Request } {
  const plus = read.model.indexOf("+");
  const request = plus < 0 ? read : { ...read, model: read.model.slice(0, plus) };
  const more = [plus < 0 ? "" : read.model.slice(plus + 1), read.scenario ?? ""]
    .filter((text) => text !== "")
    .join("+");
  if (more === "") return { call: asked, request };
  const text = [more, asked.seen.scenario].filter((part) => part !== "").join("+");
  const scenario = parseScenario(text);
  return { call: scenario === null ? undefined : withScenario(asked, text, scenario), request };
}

interface Accepted<Request> {
  readonly call: Call;
  readonly request: Request;
}

/** Checks the key, reads the request and applies its scenario. Returns undefined after answering with an error. */
export function accept<Request extends Marked>(
  asked: Call,
  read: () => Request | string,
): Accepted<Request> | undefined {
  if (!hasBearerKey(asked)) return undefined;
  const given = read();
  if (typeof given === "string") return refused(sendError(asked, 400, "invalid_request_error", null, given));
  const { call, request } = resolveScenario(asked, given);
  return call === undefined ? refused(refuseScenario(asked)) : { call, request };
}

function refused(_sent: void): undefined {}
