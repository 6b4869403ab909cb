// cspell:ignore embedings Ollama rerank
import { describe, expect, it } from "vitest";
import { createPathExplainer } from "../../../../src/server/http/unknown-path.ts";
import { callbackPath } from "../../../../src/core/task-routes.ts";
import { passthrough } from "../../../../src/wire/endpoints/passthrough.ts";

const routes = [
  { method: "post", path: "/v1/chat/completions" },
  { method: "post", path: "/v1/completions" },
  { method: "post", path: "/v1/embeddings" },
  { method: "post", path: "/v1/responses" },
  { method: "post", path: "/v1/messages" },
  { method: "post", path: "/v1/messages/count_tokens" },
  { method: "post", path: "/v1/images/generations" },
  { method: "get", path: "/v1/models" },
  { method: "get", path: "/v1/models/:id" },
  { method: "post", path: "/api/v1/task" },
  { method: "get", path: "/api/v1/task/:task_id" },
  { method: "delete", path: "/api/v1/task/:task_id" },
  { method: "post", path: `${callbackPath}/:token` },
  { method: "get", path: "/admin/v1/keys" },
  { method: "get", path: "/v1/farebox/me" },
  { method: "get", path: "/dashboard" },
  { method: "get", path: "/dashboard/" },
  { method: "get", path: "/healthz" },
  { method: "all", path: "/*routed", accepts: () => false },
];
const off = createPathExplainer(routes);
const all = createPathExplainer([...routes, { method: "all", path: passthrough.route, accepts: () => true }]);

function messageOf(target: string, method = "GET", paths = off): string {
  const refusal = paths.misspelled(method, target);
  return refusal.code === "not_found" ? refusal.message : refusal.code;
}

describe("a misspelled path", () => {
  it.each<[string, string, string]>([
    ["/v1//models", "/v1/models", "Remove the doubled slash from the base URL."],
    ["//v1/models", "/v1/models", "Remove the doubled slash from the base URL."],
    ["/v1//v1/models", "/v1/models", "Remove the doubled slash from the base URL."],
    ["/v1/v1/models", "/v1/models", "The base URL ends with /v1 only once."],
    ["/v1/V1/models", "/v1/models", "The base URL ends with /v1 only once."],
    ["/api/v1/v1/models", "/v1/models", "The base URL ends with /v1 only once."],
    ["/v1/models/", "/v1/models", "Remove the slash at its end."],
    ["/v1/models/gpt-4o/", "/v1/models/{id}", "Remove the slash at its end."],
    ["/models/", "/v1/models", "Remove the slash at its end."],
    ["/V1/models", "/v1/models", "Write it in lower case."],
    ["/v1/Models", "/v1/models", "Write it in lower case."],
    ["/HEALTHZ", "/healthz", "Write it in lower case."],
    ["/v1%2Fmodels", "/v1/models", "Write each slash as '/', without escapes."],
    ["/v1\\models", "/v1/models", "Write each slash as '/', without escapes."],
    ["/v1/./models", "/v1/models", "Leave out the segments '.' and '..'."],
    ["/x/%2e%2e/healthz", "/healthz", "Leave out the segments '.' and '..'."],
    ["/v1/models;x", "/v1/models", "Leave out the part that begins with ';' or '#'."],
    ["/v1/%6dodels", "/v1/models", "Write it without escapes."],
    [
      "http://127.0.0.1/v1/models",
      "/v1/models",
      "Farebox is no forward proxy: state its address as the base URL, not as the proxy.",
    ],
    ["/openai/v1/models", "/v1/models", "The base URL of a client ends with /v1, without other segments before it."],
    ["/v2/models", "/v1/models", "The base URL of a client ends with /v1, without other segments before it."],
  ])("%s leads to %s", (target, meant, advice) => {
    expect(messageOf(target)).toBe(`There is no path '${target}'; did you mean '${meant}'? ${advice}`);
  });

  it.each<[string, string]>([
    ["/v1/chat/completion", "/v1/chat/completions"],
    ["/v1/chat/completions/x", "/v1/chat/completions"],
    ["/v1/embedings", "/v1/embeddings"],
    ["/healthy", "/healthz"],
  ])("%s leads to the nearest path", (target, meant) => {
    expect(messageOf(target, "POST")).toBe(`There is no path '${target}'; did you mean '${meant}'?`);
  });

  it("leads to a method too if the request has another one", () => {
    expect(messageOf("/v1//chat/completions")).toContain("did you mean 'POST /v1/chat/completions'?");
    expect(messageOf("/v1/models/", "HEAD")).toContain("did you mean '/v1/models'?");
    expect(messageOf("/openai/deployments/gpt-4o/chat/completions", "POST")).toContain(
      "did you mean '/v1/chat/completions'?",
    );
    expect(messageOf("/v1beta/openai/chat/completions", "POST")).toContain("did you mean '/v1/chat/completions'?");
  });
});

describe("a path of another interface", () => {
  it.each<[string, string]>([
    ["/v1beta/models/gemini-2.5-flash:generateContent", "Gemini"],
    ["/api/chat", "Ollama"],
    ["/api/tags", "Ollama"],
  ])("%s names the paths to use", (target, vendor) => {
    const message = messageOf(target, "POST");
    expect(message).toBe(
      `There is no path '${target}'. Farebox speaks OpenAI's interface, not ${vendor}'s: use POST /v1/chat/completions or POST /v1/responses.`,
    );
  });

  it.each<[string, string, string]>([
    ["/v1/v1/messages", "/v1/messages", "The base URL of an Anthropic client ends before /v1."],
    [
      "/v1/v1/messages/count_tokens",
      "/v1/messages/count_tokens",
      "The base URL of an Anthropic client ends before /v1.",
    ],
    [
      "/anthropic/v1/messages",
      "/v1/messages",
      "The base URL of an Anthropic client ends before /v1, without other segments before it.",
    ],
    ["/v1//messages", "/v1/messages", "Remove the doubled slash from the base URL."],
    ["/v1/Messages", "/v1/messages", "Write it in lower case."],
  ])("%s leads to %s of Anthropic's interface", (target, meant, advice) => {
    expect(messageOf(target, "POST")).toBe(`There is no path '${target}'; did you mean '${meant}'? ${advice}`);
  });

  it("names Anthropic's present endpoint instead of its former one", () => {
    expect(messageOf("/v1/complete", "POST")).toBe(
      "There is no path '/v1/complete'. Farebox does not support Anthropic's text completions: use POST /v1/messages.",
    );
  });

  const batches = "batches, because their cost is known only after they have ended";
  const files = "files, because they belong to the gateway's account and not to a key";
  it.each([
    ["/v1/messages/batches", batches],
    ["/v1/messages/batches/batch_01Ab/results", batches],
    ["/v1/batches", batches],
    ["/v1/files", files],
    ["/v1/files/file-1/content", files],
  ])("%s names why it is not supported, and the setting that forwards it", (target, why) => {
    for (const explain of [off.misspelled, off.unanswered])
      expect(explain("POST", target)).toEqual({
        code: "not_found",
        message: `There is no path '${target}' here: Farebox does not support ${why}; with FAREBOX_PASSTHROUGH=all, Farebox forwards it without a price.`,
      });
  });

  it.each([
    "/v1/moderations",
    "/moderations",
    "/v1/rerank",
    "/v1/realtime/sessions",
    "/v1/assistants",
    "/v1/threads/t/messages",
    "/v1/responses/resp_1",
    "/v1/chat/completions/chatcmpl-1/messages",
  ])("%s names the setting that forwards it", (target) => {
    expect(messageOf(target, "POST")).toBe(
      `There is no path '${target}' here, because Farebox has no price for it; with FAREBOX_PASSTHROUGH=all, Farebox forwards it without a price.`,
    );
  });

  it("leads to its right spelling if the settings forward it", () => {
    expect(messageOf("/v1//moderations", "POST", all)).toBe(
      "There is no path '/v1//moderations'; did you mean '/v1/moderations'? Remove the doubled slash from the base URL.",
    );
    expect(messageOf("/v1/files/%ff", "GET", all)).toContain("did you mean '/v1/files/%ff'?");
    expect(messageOf("/v1//messages/batches", "POST", all)).toContain("did you mean '/v1/messages/batches'?");
  });
});

describe("any other path", () => {
  it.each(["/nothing", "/", "*", "/v1", "", "/admin/v1/key", "/v1/farebox/usage", `${callbackPath}/token`])(
    "%j gets the usual paths, also if the settings forward other paths",
    (target) => {
      for (const paths of [off, all])
        expect(messageOf(target, "GET", paths)).toBe(
          `There is no path '${target}'. The base URL of a client ends with /v1; chat completions are at POST /v1/chat/completions, models at GET /v1/models.`,
        );
    },
  );

  it.each(["/nothing/", "/admin/", "/Nothing", "/nothing/%41"])("%j is not blamed on its spelling", (target) => {
    expect(off.unanswered("GET", target)).toEqual({
      code: "not_found",
      message: expect.stringContaining(`There is no path '${target}'. The base URL of a client ends with /v1;`),
    });
  });

  it("is repeated up to 100 visible characters", () => {
    expect(messageOf(`/${"x".repeat(100_000)}`)).toContain(`'/${"x".repeat(99)}…'.`);
    expect(messageOf("/\x1b[31m\n\0é\u202e")).toContain("'/?[31m????'.");
    for (const long of ["/a".repeat(8_000), "/".repeat(8_000), "%25".repeat(5_000), `/v1/${"v1/".repeat(5_000)}models`])
      expect(messageOf(long).length).toBeLessThan(400);
  });
});

describe("a path with another method", () => {
  it.each<[string, string, readonly string[]]>([
    ["GET", "/v1/chat/completions", ["POST"]],
    ["POST", "/v1/models", ["GET"]],
    ["DELETE", "/v1/models/ft:gpt-4o", ["GET"]],
    ["PUT", "/api/v1/task/t-1", ["GET", "DELETE"]],
    ["HEAD", "/v1/responses", ["POST"]],
  ])("%s %s gets the methods of the path", (method, path, allow) => {
    expect(off.unanswered(method, path)).toEqual({ code: "method_not_allowed", allow });
  });

  it("gets them only for exactly this path", () => {
    for (const path of ["/v1/models/", "/v1/models//", "/V1/models", "/admin/v1/keys", `${callbackPath}/token`])
      expect(off.unanswered("PATCH", path)).toMatchObject({ code: "not_found" });
  });
});
