import { answerTerms, citesPages, withCitations } from "./answer-terms.ts";
import { isObject, listOr, parseJson } from "./json.ts";
import type { ModelAnswer } from "./model-answer.ts";
import { chatAnswer, choice } from "./output-members.ts";
import { CollectedOutput, coversOutput, walkMembers, walkOutput } from "./output-walk.ts";
import { readUsageOf } from "./usage.ts";

/** Reads a whole JSON answer; undefined where it is no JSON object. Its output is read only where no usage states it. Never throws. */
export function readChatAnswer(bytes: Buffer): ModelAnswer | undefined {
  const body = parseJson(bytes.toString("utf8"));
  if (!isObject(body)) return undefined;
  const usage = readUsageOf(body);
  const written = new CollectedOutput();
  if (!coversOutput(usage)) {
    walkOutput(body["choices"], choice, "choices", written);
    walkMembers(body, chatAnswer, "", written);
  }
  return {
    usage,
    ...withCitations(
      answerTerms(body),
      listOr(body["choices"]).some((each) => citesPages(each, "message")),
    ),
    ...written.found,
    isAnswer: listOr(body["choices"]).length > 0,
  };
}
