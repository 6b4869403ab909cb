import { expect, it } from "vitest";
import {
  readBudgetScope,
  scopeAsStored,
  sharedFault,
  unboundUserScopes,
  usersFault,
} from "../../../src/admin/scopes.ts";
import { formatScope, parseScope, readScope, type Scope } from "../../../src/core/scope.ts";
import { plainUser, storedUsers } from "../../../src/wire/headers.ts";

const scopeOf = (text: string): Scope => {
  const read = readScope(text);
  if (!read.ok) throw new Error(read.fault);
  return read.scope;
};

it.each([
  ["all", "all"],
  ["key:alice", "key:alice"],
  ["each-key:red", "team:red each-key"],
  ["model:gpt-5*  key:alice", "key:alice model:gpt-5*"],
  ["team:red each-user", "team:red each-user"],
  ["label:env=prod each-model", "label:env=prod each-model"],
  ["each-key each-tag:session", "each-key each-tag:session"],
  ["key:alice user:u%2042", "key:alice user:u%2042"],
  ["team:red tag:feature=search", "team:red tag:feature=search"],
])("%j is the scope %s", (text, stored) => {
  const read = readBudgetScope(text);
  expect(read.ok && formatScope(read.scope)).toBe(stored);
});

it.each([
  ["plain", ["user:hash_0123456789abcdef0123456789abcdef"]],
  ["hash", ["user:jane"]],
  ["off", ["user:jane", "team:red each-user", "user:hash_0123456789abcdef0123456789abcdef"]],
] as const)("scopes that match no stored user are found with FAREBOX_USERS=%s", (mode, unbound) => {
  const texts = [
    "all",
    "user:jane",
    "team:red each-user",
    "tag:user=jane",
    "user:hash_0123456789abcdef0123456789abcdef",
  ];
  const scopes = texts.flatMap((text) => parseScope(text) ?? []);
  expect(unboundUserScopes(scopes, mode).map(formatScope)).toEqual(unbound);
});

it.each([
  ["", 'scope "" must not be empty'],
  [
    "everyone",
    'scope "everyone" contains "everyone", which is not a condition; did you mean key:everyone or team:everyone?',
  ],
  ["keys:alice", "did you mean key:alice?"],
  ["team:red each-users", "did you mean each-user?"],
  ["team:red mode:gpt-5*", "did you mean model:gpt-5*?"],
  ["all key:alice", "all must be the only word of a scope"],
  ["tag:x", 'contains "tag:x", which is not a condition; write all, or conditions separated by spaces: key:NAME,'],
  ["team:Red", 'scope "team:Red" contains "Red", which is not a valid team name'],
  ["model:a,b", 'contains "a,b", which is not a model name or a pattern such as gpt-4o*'],
  [`user:${"x".repeat(129)}`, "must name a user with at most 128 characters"],
  [`tag:feature=${"é".repeat(129)}`, "must name a tag with a value of at most 128 characters"],
  ["label:env=a,b", "must name a label with a value of at most 128 characters, without commas"],
  [
    "user:jane%40x.com",
    'scope "user:jane%40x.com" contains "%40"; write %20 for a space, %25 for a percent sign, and other characters as they are',
  ],
  ["user:50%", 'contains "%"; write'],
  ["key:alice key:bob", 'scope "key:alice key:bob" must state key only once'],
  ["each-key each-user each-model", 'must have at most 2 conditions that start with "each-"'],
  ["key:alice tag:session=run_abc", "farebox run --budget sets the budget of a session"],
])("%j is refused: %s", (text, message) => {
  expect(readBudgetScope(text)).toMatchObject({
    ok: false,
    kind: "invalid",
    message: expect.stringContaining(message),
  });
});

it.each([
  ["user:u_42", true],
  ["each-user", true],
  ["each-tag:session", true],
  ["label:env=prod each-user", true],
  ["model:gpt-5* tag:x=1", true],
  ["team:red each-user", false],
  ["key:alice tag:x=1", false],
  ["each-key each-user", false],
  ["each-model", false],
  ["label:env=prod", false],
  ["all", false],
])("a hard budget for %s can be used up by any key: %s", (text, isShared) => {
  const scope = scopeOf(text);
  expect(sharedFault(scope, { mode: "hard", shared: false }) !== null).toBe(isShared);
  expect(sharedFault(scope, { mode: "hard", shared: true })).toBeNull();
  expect(sharedFault(scope, { mode: "soft", shared: false })).toBeNull();
});

it("users in a scope are stored in the same form as users of charges", () => {
  const hashed = storedUsers("hash", "5a".repeat(32));
  const digest = hashed?.("u 1") ?? "";
  const stored = (text: string, users = hashed) => formatScope(scopeAsStored(scopeOf(text), users));
  expect(stored("key:alice user:u%201")).toBe(`key:alice user:${digest}`);
  expect(stored(`key:alice user:${digest}`)).toBe(`key:alice user:${digest}`);
  expect(stored("key:alice user:u%201", plainUser)).toBe("key:alice user:u%201");
  expect(formatScope(scopeAsStored(scopeOf("key:alice user:u")))).toBe("key:alice user:u");
  expect(stored("team:red each-user tag:a=b")).toBe("team:red tag:a=b each-user");
});

it("a budget on users is refused if no users are stored", () => {
  const fault = "a budget on users has no effect, because FAREBOX_USERS is off; set it to plain or hash";
  expect([usersFault(scopeOf("key:alice user:u"), null), usersFault(scopeOf("team:red each-user"), null)]).toEqual([
    fault,
    fault,
  ]);
  expect(usersFault(scopeOf("key:alice user:u"), plainUser)).toBeNull();
  expect(usersFault(scopeOf("key:alice user:u"))).toBeNull();
  expect(usersFault(scopeOf("key:alice tag:user=u"), null)).toBeNull();
});
