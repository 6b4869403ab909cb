import type { Answers, FromChild, Books, ProcessFigures, StartParams, ToChild } from "../messages.ts";

export interface Running {
  readonly port: number;
  readonly key: string;
  books?(): Promise<Books>;
  /** Figures of the measured process, where it is not this one. */
  figures?(): ProcessFigures;
  stop(): Promise<void>;
}

/** The body of every process of the benchmark: starts what it is about, and answers its parent until it is told to stop. */
export async function runProcess(start: (params: StartParams) => Promise<Running>): Promise<void> {
  // A parent that died must not leave processes behind.
  process.once("disconnect", () => process.exit());
  const tell = (message: FromChild) => process.send?.(message);
  try {
    const running = await start(JSON.parse(process.argv[2] ?? "") as StartParams);
    process.on("message", ({ ask }: ToChild) => {
      answerTo(ask, running).then(
        (answer) => tell({ kind: "answer", answer }),
        (error: unknown) => tell({ kind: "failed", message: String(error) }),
      );
    });
    tell({ kind: "ready", port: running.port, key: running.key });
  } catch (error) {
    tell({ kind: "failed", message: String(error) });
  }
}

async function answerTo(ask: ToChild["ask"], running: Running): Promise<Answers[keyof Answers]> {
  switch (ask) {
    case "figures":
      return running.figures?.() ?? figures();
    case "books":
      if (running.books === undefined) throw new Error("this process keeps no books");
      return running.books();
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
