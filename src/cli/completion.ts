// cspell:ignore compinit
import { completionScripts, type Shell } from "./completion-scripts.ts";
import { didYouMean } from "../core/fault.ts";
import { command, type Topic } from "./command.ts";
import { commandFailure } from "./io.ts";
import { candidatesFor } from "./services/completion.ts";

/** Returns the command that completes the commands of these topics, given by name. */
export const completionTopic = (topics: ReadonlyMap<string, Topic>) => ({
  commands: [
    command("completion <shell> [words...]", {
      passThrough: true,
      help: `
Bash: add this line to ~/.bashrc:                  source <(farebox completion bash)
zsh: add this line to ~/.zshrc, after compinit:    source <(farebox completion zsh)
fish: farebox completion fish > ~/.config/fish/completions/farebox.fish

The script runs farebox completion SHELL -- WORDS, which prints the candidates for the last word.`,
      examples: ["farebox completion bash", "farebox completion zsh -- keys show al"],
      run: async (tools, _options, shell, typed) => {
        if (!Object.hasOwn(completionScripts, shell))
          return commandFailure(
            `shell must be bash, zsh or fish, not ${JSON.stringify(shell)}${didYouMean(shell, Object.keys(completionScripts))}`,
          );
        if (typed.length === 0) {
          tools.io.stdout.write(completionScripts[shell as Shell]);
          return 0;
        }
        const found = await candidatesFor(topics, tools, typed[0] === "--" ? typed.slice(1) : typed);
        if (found === "files") tools.io.stdout.write(":files\n");
        else
          for (const { text, help } of found)
            tools.io.stdout.write(shell === "bash" ? `${text}\n` : `${text}\t${help}\n`);
        return 0;
      },
    }),
  ],
});
