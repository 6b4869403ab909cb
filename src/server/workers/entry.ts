/** Entry of a worker process, as `bin/farebox.mjs` is of its primary. */
import module from "node:module";

module.enableCompileCache();
const { runWorker } = await import("./worker.ts");
await runWorker();
