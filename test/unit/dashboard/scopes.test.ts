import { describe, expect, it } from "vitest";
import {
  isForEach,
  isOfSession,
  pageOfScope,
  scopeOf,
  scopeWords,
  subjectNames,
} from "../../../src/dashboard/scopes.ts";
import { namedScope, parseScope } from "../../../src/core/scope.ts";

describe("a scope in the dashboard", () => {
  it.each<[string, string, ReturnType<typeof pageOfScope>]>([
    ["all", "all requests", null],
    ["key:alice", "key alice", ["key", "alice"]],
    ["team:red", "team red", ["team", "red"]],
    ["each-key", "each key", null],
    ["each-key:red", "each key of team red", ["team", "red"]],
    ["key:alice tag:session=run_1", "key alice, session run_1", ["key", "alice"]],
    ["key:alice model:gpt-5*", "key alice, models gpt-5*", ["key", "alice"]],
    ["model:gpt-5", "model gpt-5", null],
    ["team:red each-user", "each user of team red", ["team", "red"]],
    ["each-key each-tag:session", "each key and each tag session", null],
    [
      "label:env=prod user:a%20b%25 tag:feature=search",
      "keys with label env=prod, user a b%, tag feature=search",
      null,
    ],
    ["team:red key:alice", "team red, key alice", ["key", "alice"]],
  ])("%s is described as %j", (scope, words, page) => {
    expect([scopeWords(scope), pageOfScope(scope)]).toEqual([words, page]);
    expect(isForEach(scope)).toBe(words.startsWith("each"));
    expect(isOfSession(scope)).toBe(words.includes("session run_1"));
  });

  it.each([
    ["each-key", 1, "key"],
    ["team:red each-user", 2, "users"],
    ["each-tag:session", 2, "sessions"],
    ["each-key each-model", 1, "window"],
    ["each-key each-model", 2, "windows"],
  ])("%s counts %d %s", (scope, count, name) => {
    expect(subjectNames(scope, count)).toBe(name);
  });

  it.each([
    [{ kind: "all", name: "", more: {}, each: "" }, "all"],
    [{ kind: "key", name: "alice", more: { model: "gpt-5*", user: "" }, each: "" }, "key:alice model:gpt-5*"],
    [{ kind: "each-key", name: "red", more: {}, each: "tag:session" }, "team:red each-key each-tag:session"],
    [{ kind: "each-key", name: "", more: { tag: "a=1" }, each: "" }, "tag:a=1 each-key"],
    [{ kind: "all", name: "", more: { user: "a b%" }, each: "model" }, "user:a%20b%25 each-model"],
  ])("made from %j is %s", (stated, scope) => {
    const made = parseScope(scopeOf(stated));
    expect(made && namedScope(made, () => null)).toBe(scope);
  });
});
