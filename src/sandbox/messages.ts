import { charge, sendJson, type Call } from "./call.ts";
import { accept, answerOrFault } from "./chat.ts";
import { faultOf, serveFault } from "./faults.ts";
import { composeMessage, consumptionOfMessage, messageOf } from "./message-answer.ts";
import { messageEvents } from "./message-events.ts";
import { readMessagesRequest } from "./messages-request.ts";
import { writeJson } from "./plain.ts";
import { streamAnswer } from "./stream.ts";

/** Serves `POST /v1/messages`. */
export async function serveMessages(asked: Call): Promise<void> {
  const accepted = acceptMessages(asked);
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const answer = composeMessage(call, request);
  const whole = consumptionOfMessage(call, request, answer);
  const write = () => {
    answer.store();
    if (request.stream)
      return streamAnswer(call, messageEvents(answer, call.scenario), (written) =>
        consumptionOfMessage(call, request, answer, written),
      );
    if (whole !== undefined) charge(call, whole);
    return writeJson(call, messageOf(answer));
  };
  return answerOrFault(call, request.stream, whole, write);
}

/** Serves `POST /v1/messages/count_tokens`, which is free. */
export async function serveTokenCount(asked: Call): Promise<void> {
  const accepted = acceptMessages(asked);
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const fault = faultOf(call.scenario, call.redirects);
  return fault === undefined ? sendJson(call, 200, { input_tokens: request.promptTokens }) : serveFault(call, fault);
}

function acceptMessages(asked: Call) {
  const isCount = asked.path.endsWith("/count_tokens");
  return accept(asked, () =>
    asked.head.headers["anthropic-version"] === undefined
      ? "anthropic-version: header is required"
      : readMessagesRequest(asked.seen.body, isCount),
  );
}
