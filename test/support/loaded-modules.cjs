// Preloaded into each thread of a program. Appends a line to the file in LOADED_MODULES for each module that is loaded.
const { appendFileSync } = require("node:fs");
const { registerHooks } = require("node:module");
const { threadId } = require("node:worker_threads");

registerHooks({
  load(url, context, nextLoad) {
    appendFileSync(process.env.LOADED_MODULES, `${threadId} ${url}\n`);
    return nextLoad(url, context);
  },
});
