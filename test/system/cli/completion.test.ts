import { chmodSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import {
  cleanEnvironment,
  fareboxCommand,
  runFarebox,
  startProgramInTerminal,
  temporaryFolder,
  type TerminalProcess,
} from "../../support/farebox-process.ts";
import { skipWithout } from "../../support/programs.ts";

// cspell:ignore compinit norc noprofile

/** For each shell, a command that starts it without the user's settings, and the line that loads the completion. */
const shells = {
  bash: { words: ["bash", "--norc", "--noprofile", "-i"], load: "source <(farebox completion bash)" },
  zsh: { words: ["zsh", "-f", "-i"], load: "autoload -U compinit; compinit -u -D; source <(farebox completion zsh)" },
  fish: { words: ["fish", "--no-config", "-i"], load: "farebox completion fish | source" },
} as const;

/** Returns a folder with a ledger, a file to complete, and a program `farebox`, which the completion calls. */
async function preparedFolder() {
  const folder = await temporaryFolder();
  const program = join(folder.path, "farebox");
  writeFileSync(program, `#!/bin/sh\nexec ${fareboxCommand([]).join(" ")} "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(join(folder.path, "limits.yaml"), "teams:\n  sales: {}\n");
  for (const args of [
    ["keys", "create", "alice", "--team", "research"],
    ["keys", "create", "bob"],
    ["admins", "create", "carol", "--role", "viewer"],
  ])
    expect(await runFarebox(args, { cwd: folder.path })).toMatchObject({ code: 0 });
  return folder;
}

const typed = [
  ["a command", "farebox key\tlist", /\balice\b.*\bresearch\b/],
  ["a subcommand and a key", "farebox keys sh\tal\t", /\bname\s+alice\b/],
  ["an option", "farebox keys list --js\t", /"name": "bob"/],
  ["a key of an option", "farebox charges --key al\t--json", /"charges": \[\]/],
  ["a key after an equals sign", "farebox charges --json --key=al\t", /"charges": \[\]/],
  ["a team", "farebox teams show re\t", /\bname\s+research\b/],
  ["a model", "farebox prices show gpt-4o-mini-tr\t", /\bmodel\s+gpt-4o-mini-transcribe\b/],
  ["an admin", "farebox admins revoke --yes ca\t", /revoked carol/],
  ["a scope with a colon", "farebox budgets set key:al\t5 --per 1w", /key:alice: USD 5.00 per 1w, hard/],
  [
    "a model of a scope",
    "farebox budgets set mod\tgpt-4o-mini-tr\t4 --per 1d",
    /model:gpt-4o-mini-transcribe: USD 4.00/,
  ],
  ["a choice", "farebox budgets set team:re\t7 --per to\t", /team:research: USD 7.00 per total, hard/],
  ["a file", "farebox apply --dry-run lim\t", /1 to create, 0 to change, 0 to remove/],
] as const;

describe.for(["bash", "zsh", "fish"] as const)("completion in %s", (name) => {
  const { words, load } = shells[name];
  const isMissing = skipWithout("python3") || skipWithout(name);

  it.skipIf(isMissing)("completes commands, options, names and files", async () => {
    await using folder = await preparedFolder();
    const env = {
      PATH: [folder.path, cleanEnvironment()["PATH"] ?? ""].join(delimiter),
      HOME: folder.path,
      TERM: "xterm",
      LANG: "C.UTF-8",
    };
    await using shell = startProgramInTerminal(words, { cwd: folder.path, env });
    await runLine(shell, load);
    for (const [what, line, expected] of typed) {
      const shown = await runLine(shell, line);
      expect(shown, what).toMatch(expected);
    }
    shell.type("exit\r");
    expect(await shell.ended).toMatchObject({ code: 0 });
  });
});

/** Types a line and returns what the terminal shows until the line's command has ended. */
async function runLine(shell: TerminalProcess, line: string): Promise<string> {
  const before = shell.stdout.length;
  shell.type(`${line}\r`);
  lines += 1;
  // The mark is shown only by the command, not by the echo of the line.
  shell.type(`echo end-""-${lines}\r`);
  await shell.printed(new RegExp(`end--${lines}\\b`));
  return stripVTControlCharacters(shell.stdout.slice(before)).replaceAll("\r", "");
}
let lines = 0;
