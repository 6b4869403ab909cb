import type { Answers, FromChild, LedgerFigures, ProcessFigures, StartParams, ToChild } from "../messages.ts";

export interface Running {
  readonly port: number;
  readonly key: string;
  ledger?(): Promise<LedgerFigures>;
  /** Returns the figures of the measured processes. Missing if this process is the measured one. */
  figures?(): ProcessFigures;
  stop(): Promise<void>;
}

/** Runs a process of the benchmark: starts its program, and answers its parent until the parent stops it. */
export async function runProcess(start: (params: StartParams) => Promise<Running>): Promise<void> {
  // A dead parent can no longer stop this process.
  process.once("disconnect", () => process.exit());
  const send = (message: FromChild) => process.send?.(message);
  try {
    const running = await start(JSON.parse(process.argv[2] ?? "") as StartParams);
    process.on("message", ({ query }: ToChild) => {
      answerTo(query, running).then(
        (answer) => send({ kind: "answer", answer }),
        (error: unknown) => send({ kind: "failed", message: String(error) }),
      );
    });
    send({ kind: "ready", port: running.port, key: running.key });
  } catch (error) {
    send({ kind: "failed", message: String(error) });
  }
}

async function answerTo(query: ToChild["query"], running: Running): Promise<Answers[keyof Answers]> {
  switch (query) {
    case "figures":
      return running.figures?.() ?? figures();
    case "ledger":
      if (running.ledger === undefined) throw new Error("this process has no ledger");
      return running.ledger();
    case "stop":
      await running.stop();
      setImmediate(() => process.disconnect());
      return null;
  }
}

function figures(): ProcessFigures {
  const { user, system } = process.cpuUsage();
  return {
    cpuUs: user + system,
    rssBytes: process.memoryUsage.rss(),
    peakRssBytes: process.resourceUsage().maxRSS * 1024,
  };
}
